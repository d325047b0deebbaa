"""What there is to know about an option. [pure]"""

from ddplaunch.config import parse
from ddplaunch.record import Record


class Setting(Record):
    name: str
    group: str
    parse: parse.Parser
    default: object
    help: str
    metavar: str = ""  # empty: a flag that takes no value
    short: str = ""
    torchrun: bool = False  # torchrun has it under the same name: PET_<NAME> counts
    repeatable: bool = False

    @property
    def option(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return "DDPLAUNCH_" + self.name.upper()
