#include <stdio.h>
#include "plan.h"

static uint8_t fast[MEMPLACE_ARENA_BYTES_0 + 1]; /* C has no empty arrays */

int main(void) {
    unsigned served = 0;
    for (uint32_t op = 0; op < MEMPLACE_OPS; op++) {
        for (uint32_t i = 0; i != MEMPLACE_COPIES; i++) { /* which may be 0 */
            const memplace_copy *copy = &memplace_copies[i];
            if (copy->earliest_op == op) {
                printf("start copying %s\n", memplace_tensors[copy->tensor].name);
            }
        }
        for (uint32_t i = 0; i < memplace_ops[op].use_count; i++) {
            const memplace_use *use = &memplace_uses[memplace_ops[op].first_use + i];
            if (use->level == 0) {
                uint8_t *address = fast + use->offset; /* what the kernel is called with */
                served += address < fast + sizeof fast;
            }
        }
        printf("run %s\n", memplace_ops[op].name);
    }
    printf("%u uses in %s\n", served, memplace_levels[0].name);
    return 0;
}
