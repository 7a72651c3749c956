"""The exceptions a user can meet: one per kind of input, each message one sentence that says what to do."""


class MemPlaceError(ValueError):
    """Base of all errors about what the user handed in; the command line exits with code 2 on it."""


class WorkloadError(MemPlaceError):
    """A model file, a workload name, a dimension or a dtype that cannot become a Program."""


class AcceleratorError(MemPlaceError):
    """An accelerator description with a missing, unknown or impossible field."""


class PlanError(MemPlaceError):
    """A plan that cannot be read, belongs to another program, or is not valid."""


class ActionError(MemPlaceError):
    """An action or mapping of the wrong shape, dtype or range."""


class AgentError(MemPlaceError):
    """An agent's name, budget or option that makes no sense."""
