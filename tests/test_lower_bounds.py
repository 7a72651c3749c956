"""The lower bounds of setup.cfg are the versions that `make test-min` tests."""

import re
from configparser import ConfigParser
from pathlib import Path

from tests.offenders import every

ROOT = Path(__file__).parent.parent


def versions(lines: str, sign: str) -> dict[str, tuple[int, ...]]:
    """Return the versions of packages by their names in normal form."""
    pins = re.findall(rf"^([\w-]+){sign}([\d.]+)", lines, re.MULTILINE)
    return {name.replace("_", "-").lower(): tuple(map(int, version.split("."))) for name, version in pins}


def bounds() -> dict[str, tuple[int, ...]]:
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    extras = (config["options.extras_require"][extra] for extra in ("agents", "viz", "page"))
    return versions("\n".join([config["options"]["install_requires"], *extras]), ">=")


def pins() -> dict[str, tuple[int, ...]]:
    return versions((ROOT / "constraints-min.txt").read_text(), "==")


@every("package", sorted(bounds()))
def test_the_bound_is_what_is_tested(package: str) -> None:
    bound, pin = bounds()[package], pins()[package]
    assert pin >= bound if package == "torch" else pin[: len(bound)] == bound


def test_all_requirements_have_a_bound() -> None:
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    assert len(config["options"]["install_requires"].split()) + 7 == len(bounds())
