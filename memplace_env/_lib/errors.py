"""The exceptions a user can meet: one per kind of input, each message is one sentence with a remedy."""

from memplace_env._lib.foreign import shown


class MemPlaceError(ValueError):
    """Base of all errors about what the user handed in; the command line exits with code 2 on it.

    Messages quote names out of files, so they are escaped and shortened here, for all of them.
    """

    def __str__(self) -> str:
        return shown(super().__str__())


class WorkloadError(MemPlaceError):
    """A model file, a workload name, a dimension or a dtype that cannot become a Program."""


class AcceleratorError(MemPlaceError):
    """An accelerator description with a missing, unknown or impossible field, or a chip too small for the program."""


class CostError(MemPlaceError):
    """A cost model that does not exist, or whose arrays have the wrong shape, type or range."""


class CalibrationError(MemPlaceError):
    """Measurements that cannot be read, or too few of them for what is to be fitted."""


class SimulatorError(MemPlaceError):
    """A simulator that does not exist, an object that is none, or one that fails or returns an impossible report."""


class PlanError(MemPlaceError):
    """A plan that cannot be read, belongs to another program, or is not valid."""


class ExecutionError(MemPlaceError):
    """A program that cannot be run, because of its origin, an operator that ONNX Runtime lacks, or its inputs."""


class ActionError(MemPlaceError):
    """An action, or levels of tensors, of the wrong shape, dtype or range."""


class EnvError(MemPlaceError):
    """An option of an environment that makes no sense, or a wrapper around an environment that it does not fit."""


class AgentError(MemPlaceError):
    """An agent's name, budget or option that makes no sense."""


class LeaderboardError(MemPlaceError):
    """A suite, a track or a budget that does not exist, or a submission that cannot be read or does not replay."""


class WorkerError(MemPlaceError):
    """A number of worker processes that makes no sense, or work during which one after the other dies."""


class VisualizationError(MemPlaceError):
    """A picture that cannot be drawn, because a package is missing or there is nothing to draw."""
