/* Many assignments of levels to tensors, compiled and timed: the rule of `resident.py` and `packing.py` in
 * memplace_env/placement/compiler, where comments explain it, in plain C, to measure what the kernels there lose.
 * Left out are crowds of blocks and the offsets of weights, which no latency depends on.
 *
 * Blocks are the results, numbered by rank: larger ones first. Sizes are bytes, times ps, energies pJ. The compiler is
 * given ATTEMPTS, MOST_AROUND, MOST_LOOKS and FEW, the constants of `packing.py`. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Fields of `placing_order.Schedule` and lengths of its arrays; `one_shot.py` has them in the same order. */
typedef struct {
    int64_t tensors, levels, ops, items, blocks, decisions, compute_pj, any_reserved, serial, in_order;
    const int32_t *item_tensor;                          /* [items] */
    const uint8_t *item_is_weight;                       /* [items] */
    const int32_t *by_rank;                              /* [blocks] */
    const int64_t *size, *first, *last;                  /* [blocks] */
    const int64_t *ptr, *middle;                         /* [blocks + 1], [blocks] */
    const int32_t *other;                                /* [ptr[blocks]] */
    const int64_t *tensor_bytes, *live_start, *live_end; /* [tensors] */
    const int64_t *decision_of;                          /* [tensors] */
    const int64_t *capacity, *latency_ps;                /* [levels] */
    const int32_t *use_ptr, *use_tensor;                 /* [ops + 1], [uses] */
    const int64_t *compute_ps, *overhead_ps;             /* [ops] */
    const int64_t *use_ps, *use_pj;                      /* [uses][levels] */
    const int64_t *reserved_bytes;                       /* [ops][levels] */
} Schedule;

/* Space for one assignment at a time, allocated once. */
typedef struct {
    int64_t *load;                      /* [levels][ops + 1] */
    int64_t *live, *peak, *room, *used; /* [levels] */
    int64_t *offset, *end, *top;        /* [blocks] */
    int64_t *trial, *trial_end;         /* [blocks] */
    int64_t *before;                    /* [blocks] */
    int64_t *key, *other_key;           /* [blocks] */
    int32_t *members, *order, *best;    /* [blocks] */
    int32_t *rows, *around, *merged;    /* [blocks] */
} Scratch;

static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static inline bool alike(const Schedule *s, int32_t a, int32_t b) {
    return s->size[a] == s->size[b] && s->first[a] == s->first[b] && s->last[a] == s->last[b];
}

enum { BY_AREA, BY_LIFE, BY_START, BY_RANK };

static int64_t key_of(const Schedule *s, int32_t block, int by) {
    int64_t life = s->last[block] - s->first[block] + 1;
    switch (by) {
    case BY_AREA: return -life * s->size[block];
    case BY_LIFE: return -life;
    case BY_START: return s->first[block];
    default: return 0;
    }
}

/* Sort by key, what is equal there by rank: insertion sort of short lists, else merges of sorted halves. */
static void sort_range(Scratch *w, int32_t *items, int64_t *key, int32_t count) {
    if (count <= 16) {
        for (int32_t end = 1; end < count; end++) {
            int32_t item = items[end], index = end;
            int64_t its_key = key[end];
            for (; index > 0 && (key[index - 1] > its_key || (key[index - 1] == its_key && items[index - 1] > item));
                 index--) {
                items[index] = items[index - 1];
                key[index] = key[index - 1];
            }
            items[index] = item;
            key[index] = its_key;
        }
        return;
    }
    int32_t half = count / 2;
    sort_range(w, items, key, half);
    sort_range(w, items + half, key + half, count - half);
    memcpy(w->merged, items, half * sizeof *items);
    memcpy(w->other_key, key, half * sizeof *key);
    for (int32_t left = 0, right = half, to = 0; left < half; to++) {
        if (right < count && (key[right] < w->other_key[left] ||
                              (key[right] == w->other_key[left] && items[right] < w->merged[left]))) {
            items[to] = items[right];
            key[to] = key[right++];
        } else {
            items[to] = w->merged[left];
            key[to] = w->other_key[left++];
        }
    }
}

static void sort_blocks(const Schedule *s, Scratch *w, int32_t *items, int32_t count, int by) {
    for (int32_t index = 0; index < count; index++) w->key[index] = key_of(s, items[index], by);
    sort_range(w, items, w->key, count);
}

/* Write the neighbours of a block that have an end, without a branch; return how many. */
static int32_t placed_around(const Schedule *s, int32_t block, const int64_t *end, int32_t *around) {
    int32_t count = 0;
    for (int64_t index = s->ptr[block]; index < s->ptr[block + 1]; index++) {
        around[count] = s->other[index];
        count += end[s->other[index]] >= 0;
    }
    return count;
}

/* The same by address. */
static int32_t by_address(const Schedule *s, int32_t block, const int64_t *offset, const int64_t *top,
                          int32_t *around) {
    int32_t count = placed_around(s, block, top, around);
    for (int32_t step = count / 2; step > 0; step /= 2) {
        for (int32_t sorted = step; sorted < count; sorted++) {
            int32_t neighbour = around[sorted], index = sorted;
            for (; index >= step && offset[around[index - step]] > offset[neighbour]; index -= step)
                around[index] = around[index - step];
            around[index] = neighbour;
        }
    }
    return count;
}

/* The lowest gap from `begin` on, behind the rows that were passed. */
static inline int64_t next_gap(const int32_t *rows, int32_t count, int32_t *passed, int64_t begin, int64_t need,
                               const int64_t *offset, const int64_t *top) {
    int32_t at = *passed;
    for (; at < count && offset[rows[at]] < begin + need; at++) begin = most(begin, top[rows[at]]);
    *passed = at;
    return begin;
}

/* Place a block at 0 and those around it anew; return whether all found addresses. */
static bool repair(const Schedule *s, Scratch *w, int64_t ceiling, int32_t block, int64_t *offset, int64_t *end,
                   int64_t *top) {
    const int64_t *size = s->size;
    int32_t *around = w->around, count = placed_around(s, block, end, around);
    if (count > MOST_AROUND) return false;
    for (int attempt = 0; attempt < 2; attempt++) {
        sort_blocks(s, w, around, count, attempt ? BY_LIFE : BY_RANK);
        for (int32_t index = 0; index < count; index++) {
            w->before[index] = offset[around[index]];
            end[around[index]] = top[around[index]] = -1;
        }
        offset[block] = 0;
        end[block] = top[block] = size[block];
        bool fits = size[block] <= ceiling;
        int32_t row_count = 0, passed = 0, last_one = -1;
        for (int32_t index = 0; fits && index < count; index++) {
            int32_t neighbour = around[index];
            int64_t begin = 0;
            if (last_one >= 0 && alike(s, last_one, neighbour)) {
                begin = end[last_one];
            } else {
                row_count = by_address(s, neighbour, offset, top, w->rows);
                passed = 0;
            }
            offset[neighbour] = next_gap(w->rows, row_count, &passed, begin, size[neighbour], offset, top);
            end[neighbour] = top[neighbour] = offset[neighbour] + size[neighbour];
            fits = end[neighbour] <= ceiling;
            last_one = neighbour;
        }
        if (fits) return true;
        for (int32_t index = 0; index < count; index++) {
            offset[around[index]] = w->before[index];
            end[around[index]] = top[around[index]] = w->before[index] + size[around[index]];
        }
        end[block] = top[block] = -1;
    }
    return false;
}

/* Place blocks in an order, each at the lowest gap; return the bytes unplaced, or `enough` as soon as it is that. */
static int64_t place(const Schedule *s, Scratch *w, const int32_t *order, int32_t count, bool by_rank, int64_t ceiling,
                     int64_t enough, int64_t *offset, int64_t *end) {
    const int64_t *size = s->size, *ptr = s->ptr, *until_of = by_rank ? s->middle : s->ptr + 1;
    const int32_t *other = s->other;
    int64_t lost = 0, *top = end;
    int32_t head = -1, last_one = -1, row_count = 0, passed = 0, refused = -1;
    for (int64_t block = 0; block < s->blocks; block++) end[block] = -1;
    for (int32_t index = 0; index < count; index++) {
        int32_t block = order[index];
        int64_t begin = 0, need = size[block], since = ptr[block], until = until_of[block];
        if (refused >= 0 && alike(s, refused, block)) {
            lost += need;
            if (lost >= enough) return enough;
            continue;
        }
        if (until - since <= FEW) {
            last_one = -1;
            head = block;
            for (bool moved = true; moved;) {
                moved = false;
                for (int64_t at = since; at < until; at++) {
                    int32_t neighbour = other[at];
                    if (end[neighbour] > begin && offset[neighbour] < begin + need) {
                        begin = end[neighbour];
                        moved = true;
                    }
                }
            }
        } else {
            if (top == end) {
                top = w->top;
                memcpy(top, end, s->blocks * sizeof *end);
            }
            if (last_one >= 0 && alike(s, last_one, block)) {
                begin = end[last_one];
            } else {
                row_count = by_address(s, block, offset, top, w->rows);
                passed = 0;
                head = -1;
            }
            begin = next_gap(w->rows, row_count, &passed, begin, need, offset, top);
            if (head < 0 || begin > end[last_one]) head = block;
            last_one = block;
        }
        if (begin + need <= ceiling) {
            offset[block] = begin;
            end[block] = begin + need;
            top[head] = end[block];
            refused = -1;
        } else {
            last_one = -1;
            if (repair(s, w, ceiling, block, offset, end, top)) {
                refused = -1;
                continue;
            }
            refused = block;
            lost += need;
            if (lost >= enough) return enough;
        }
    }
    return lost;
}

/* Place blocks by area, by life and by start, then those first that failed; return the fewest bytes unplaced. */
static int64_t try_other_orders(const Schedule *s, Scratch *w, int32_t count, int64_t ceiling, int64_t least) {
    size_t list = count * sizeof *w->order, table = s->blocks * sizeof *w->end;
    memcpy(w->best, w->members, list);
    memcpy(w->trial_end, w->end, table);
    for (int attempt = 0; attempt < 3 + ATTEMPTS; attempt++) {
        if ((attempt + 1) * s->ptr[s->blocks] > MOST_LOOKS) break;
        if (attempt < 3) {
            memcpy(w->order, w->members, list);
            sort_blocks(s, w, w->order, count, attempt);
        } else {
            int32_t failed = 0;
            while (w->trial_end[w->order[failed]] >= 0) failed++;
            int32_t block = w->order[failed];
            memmove(w->order + 1, w->order, failed * sizeof *w->order);
            w->order[0] = block;
        }
        int64_t lost = place(s, w, w->order, count, false, ceiling, least, w->trial, w->trial_end);
        if (lost < least) {
            least = lost;
            memcpy(w->best, w->order, list);
            memcpy(w->offset, w->trial, table);
            memcpy(w->end, w->trial_end, table);
        }
        if (least == 0) break;
        if (attempt == 2) {
            memcpy(w->order, w->best, list);
            memcpy(w->trial_end, w->end, table);
        }
    }
    return least;
}

/* Take `size` bytes of the fastest level, from `level` down, that has them in all of the ops first..last. */
static int64_t take_bytes(const Schedule *s, Scratch *w, int64_t level, int64_t first, int64_t last, int64_t size) {
    for (; level < s->levels - 1; level++) {
        int64_t *load = w->load + level * (s->ops + 1), highest = 0;
        for (int64_t op = first; op <= last; op++) highest = most(highest, load[op] + size);
        if (highest <= w->room[level]) {
            for (int64_t op = first; op <= last; op++) load[op] += size;
            w->peak[level] = most(w->peak[level], highest);
            break;
        }
    }
    return level;
}

static inline int64_t wanted_level(const Schedule *s, const int64_t *assignment, int32_t tensor) {
    return s->decision_of[tensor] >= 0 ? assignment[s->decision_of[tensor]] : s->levels - 1;
}

/* Decide the level of each tensor by bytes. */
static void grant(const Schedule *s, Scratch *w, const int64_t *assignment, int8_t *level) {
    const int64_t backing = s->levels - 1, row = s->ops + 1;
    int64_t *load = w->load, *live = w->live, *peak = w->peak, *room = w->room, now = 0;
    memset(load, 0, backing * row * sizeof *load);
    for (int64_t fast = 0; fast < backing; fast++) {
        int64_t reserved = 0;
        if (s->any_reserved)
            for (int64_t op = 0; op < s->ops; op++) reserved = most(reserved, s->reserved_bytes[op * s->levels + fast]);
        room[fast] = s->capacity[fast] - reserved;
        live[fast] = peak[fast] = 0;
    }
    memset(level, (int)backing, s->tensors);
    for (int64_t item = 0; item < s->items; item++) {
        int32_t tensor = s->item_tensor[item];
        int64_t size = s->tensor_bytes[tensor], got = wanted_level(s, assignment, tensor);
        if (s->item_is_weight[item]) {
            while (got < backing && peak[got] + size > room[got]) got++;
            if (got < backing) room[got] -= size;
        } else if (s->in_order) {
            for (; now < s->live_start[tensor]; now++)
                for (int64_t fast = 0; fast < backing; fast++) live[fast] -= load[fast * row + now + 1];
            while (got < backing && live[got] + size > room[got]) got++;
            if (got < backing) {
                live[got] += size;
                load[got * row + s->live_end[tensor] + 1] += size;
                peak[got] = most(peak[got], live[got]);
            }
        } else {
            got = take_bytes(s, w, got, s->live_start[tensor], s->live_end[tensor], size);
        }
        level[tensor] = (int8_t)got;
    }
}

/* Find addresses for the results, and a lower level for those that find none. */
static void find_addresses(const Schedule *s, Scratch *w, int8_t *level) {
    const int64_t backing = s->levels - 1, row = s->ops + 1;
    for (int64_t fast = 0; fast < backing; fast++) {
        int32_t count = 0;
        for (int32_t block = 0; block < s->blocks; block++) {
            w->members[count] = block;
            count += level[s->by_rank[block]] == fast;
        }
        int64_t ceiling = w->room[fast];
        int64_t lost = place(s, w, w->members, count, true, ceiling, INT64_MAX, w->offset, w->end);
        if (lost > 0) lost = try_other_orders(s, w, count, ceiling, lost);
        if (lost == 0) continue;
        memset(w->load, 0, backing * row * sizeof *w->load);
        memset(w->peak, 0, backing * sizeof *w->peak);
        for (int64_t block = 0; block < s->blocks; block++) {
            int64_t got = level[s->by_rank[block]];
            if (got < backing) {
                w->load[got * row + s->first[block]] += s->size[block];
                w->load[got * row + s->last[block] + 1] -= s->size[block];
            }
        }
        for (int64_t other = fast + 1; other < backing; other++)
            for (int64_t op = 1; op < s->ops; op++) w->load[other * row + op] += w->load[other * row + op - 1];
        for (int32_t index = 0; index < count; index++) {
            int32_t block = w->members[index];
            if (w->end[block] < 0)
                level[s->by_rank[block]] =
                    (int8_t)take_bytes(s, w, fast + 1, s->first[block], s->last[block], s->size[block]);
        }
    }
}

/* The latency of all ops; adds their energy. */
static int64_t time_ops(const Schedule *s, Scratch *w, const int8_t *level, int64_t *picojoules) {
    int64_t latency = 0, *used = w->used;
    for (int64_t op = 0; op < s->ops; op++) {
        int64_t slowest = 0, total = 0;
        memset(used, 0, s->levels * sizeof *used);
        for (int32_t use = s->use_ptr[op]; use < s->use_ptr[op + 1]; use++) {
            int64_t served_by = level[s->use_tensor[use]];
            used[served_by] += s->use_ps[use * s->levels + served_by];
            *picojoules += s->use_pj[use * s->levels + served_by];
        }
        for (int64_t at = 0; at < s->levels; at++) {
            int64_t busy = used[at] + s->latency_ps[at] * (used[at] > 0);
            slowest = most(slowest, busy);
            total += busy;
        }
        latency += most(s->compute_ps[op], s->serial ? total : slowest) + s->overhead_ps[op];
    }
    return latency;
}

static int64_t reassigned_bytes(const Schedule *s, const int64_t *assignment, const int8_t *level) {
    int64_t moved = 0;
    for (int64_t item = 0; item < s->items; item++) {
        int32_t tensor = s->item_tensor[item];
        if (level[tensor] != wanted_level(s, assignment, tensor)) moved += s->tensor_bytes[tensor];
    }
    return moved;
}

/* Compile and time `count` assignments int64[count][decisions]. Fill in out int64[3][count], latency, dynamic energy
 * and reassigned bytes, and levels int8[count][tensors]. Return whether there was memory for it. */
bool place_all(const Schedule *s, const int64_t *assignments, int64_t count, int64_t *out, int8_t *levels) {
    size_t numbers = s->levels * (s->ops + 1) + 4 * s->levels + 8 * s->blocks, indices = 6 * s->blocks;
    int64_t *memory = calloc(numbers, sizeof *memory), *number = memory;
    int32_t *list = malloc((indices + 1) * sizeof *list), *index = list; /* of 0 bytes it might be NULL */
    if (!memory || !list) {
        free(memory);
        free(list);
        return false;
    }
    Scratch w;
    w.load = number;
    number += s->levels * (s->ops + 1);
    int64_t **of_levels[] = {&w.live, &w.peak, &w.room, &w.used};
    int64_t **of_blocks[] = {&w.offset, &w.end, &w.top, &w.trial, &w.trial_end, &w.before, &w.key, &w.other_key};
    int32_t **lists[] = {&w.members, &w.order, &w.best, &w.rows, &w.around, &w.merged};
    for (size_t at = 0; at < sizeof of_levels / sizeof *of_levels; at++, number += s->levels) *of_levels[at] = number;
    for (size_t at = 0; at < sizeof of_blocks / sizeof *of_blocks; at++, number += s->blocks) *of_blocks[at] = number;
    for (size_t at = 0; at < sizeof lists / sizeof *lists; at++, index += s->blocks) *lists[at] = index;
    for (int64_t each = 0; each < count; each++) {
        const int64_t *assignment = assignments + each * s->decisions;
        int8_t *level = levels + each * s->tensors;
        int64_t picojoules = s->compute_pj;
        grant(s, &w, assignment, level);
        find_addresses(s, &w, level);
        out[each] = time_ops(s, &w, level, &picojoules);
        out[count + each] = picojoules;
        out[2 * count + each] = reassigned_bytes(s, assignment, level);
    }
    free(memory);
    free(list);
    return true;
}
