"""Graph outputs that are written in the place of a graph input, as a decoder's caches are."""

from __future__ import annotations

from collections.abc import Mapping

from memplace_env._lib.errors import WorkloadError
from memplace_env._lib.hints import nearest
from memplace_env.program.lowering.buffer_ops import OpGraph
from memplace_env.program.lowering.node_graph import NodeGraph


def places(graph: NodeGraph, aliases: Mapping[str, str]) -> Mapping[str, str]:
    """Return by name of an output the input whose place it takes.

    Args:
        graph: a graph with all shapes known.
        aliases: inputs by outputs; a "*" in both stands for the same text.

    Raises:
        WorkloadError: there is no such output or input, or two outputs take one place.
    """
    made = {name for node in graph.nodes for name in node.outputs}
    inputs = [name for name, value in graph.values.items() if name not in made and not value.constant]
    found: dict[str, str] = {}
    for output, place in aliases.items():
        if (output.count("*"), place.count("*")) not in ((0, 0), (1, 1)):
            raise WorkloadError(f"{output}={place}: a pattern of aliases has one * in the output and one in the input.")
        begin, star, end = output.partition("*")
        alike = [name for name in graph.outputs if star and name.startswith(begin) and name[len(begin) :].endswith(end)]
        for name in alike or [output]:
            found[name] = place.replace("*", name[len(begin) : len(name) - len(end)])
    for kind, names, known in (("output", found, graph.outputs), ("input", found.values(), inputs)):
        for name in names:
            if name not in known:
                close = nearest(name, known)
                hint = f"did you mean {close!r}?" if close else "aliases are names of outputs and of inputs."
                raise WorkloadError(f"The model has no {kind} {name!r}; {hint}")
    if len(set(found.values())) < len(found):
        raise WorkloadError("aliases give the place of one input to two outputs; name each input once.")
    return found


def check_aliases(graph: OpGraph) -> None:
    """Check that ops after fusion can write outputs in the places that they take.

    Raises:
        WorkloadError: an output is not computed, or has other bytes, or an op still reads what it has overwritten.
    """
    for name, place in graph.alias_of.items():
        maker = next((index for index, op in enumerate(graph.ops) if name in op.outputs), None)
        new, old = (graph.buffers.get(buffer) for buffer in (name, place))
        if maker is None or new is None or old is None or (new.elements, new.bits) != (old.elements, old.bits):
            raise WorkloadError(f"{name!r} cannot take the place of {place!r}: it is not computed, or has other bytes.")
        in_place = name in graph.ops[maker].writes or (place, name) in graph.ops[maker].aligned
        late = next((op.name for op in graph.ops[maker + in_place :] if place in op.reads), None)
        if late is not None:
            raise WorkloadError(f"{name!r} cannot take the place of {place!r}, which the op {late!r} still reads.")
