"""What a row of the option table is."""

from dataclasses import dataclass

from rollup_node.node.options.kinds import Kind


@dataclass(frozen=True)
class Option:
    """One option. `default` is the text that reads as its default, None for "nothing". `old_names` are further
    flags, each with its variable. `missing` names the part that an explicitly set value needs and that this
    version lacks; the values in `harmless` (texts) do not need it, nor does the default. `warning` is said when it
    is set."""

    name: str
    kind: Kind
    default: str | None
    variable: str
    help: str
    old_names: tuple[tuple[str, str], ...] = ()
    hidden: bool = False
    secret: bool = False
    missing: str | None = None
    harmless: tuple[str, ...] = ()
    warning: str | None = None

    @property
    def flag(self) -> str:
        return f"--{self.name}"

    @property
    def names(self) -> tuple[str, ...]:
        """Every name, the present one first."""
        return (self.name, *(name for name, _ in self.old_names))


@dataclass(frozen=True)
class Section:
    """A group of options in help and documentation."""

    title: str
    options: tuple[Option, ...]
