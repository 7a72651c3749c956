"""Run experiments, and print or write what pages show of them.

    python -m benchmarks list --missing                 # what `run` would measure, and about how long that takes
    python -m benchmarks run dynamic --only AlexNet     # measures what is missing, and prints the tables
    python -m benchmarks run dynamic --recorded --write # measures nothing, and writes the tables into docs/
    python -m benchmarks check                          # ends with 1 if a page is not what the records give

A run that was stopped continues with what is missing in benchmarks/records.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pkgutil import iter_modules

from benchmarks import experiments
from benchmarks.harness import Experiment


def all_experiments() -> dict[str, Experiment]:
    """Return the experiments by name."""
    modules = [import_module(f"{experiments.__name__}.{module.name}") for module in iter_modules(experiments.__path__)]
    return {one.name: one for module in modules for one in getattr(module, "EXPERIMENTS", ())}


def main() -> None:
    found = all_experiments()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    show = commands.add_parser("list", help="print name and summary of each experiment")
    show.add_argument("--missing", action="store_true", help="print the settings without a record, and their hours")
    run = commands.add_parser("run", help="measure what is missing, and print the tables")
    check = commands.add_parser("check", help="compare pages and data files with the records")
    for command in (run, check):
        command.add_argument("names", nargs="*", metavar="NAME", help="experiments (default: all)")
    run.add_argument("--only", nargs="+", default=(), metavar="VALUE", help="settings with all of these values")
    run.add_argument("--recorded", action="store_true", help="measure nothing")
    run.add_argument("--again", action="store_true", help="measure what has a record, too")
    run.add_argument("--write", action="store_true", help="write pages, data files and pictures")
    run.add_argument("--jobs", type=int, default=1, help="settings side by side, each on its own core (default 1)")
    options = parser.parse_args()
    if options.command == "list" and options.missing:
        for name, one in sorted(found.items()):
            missing, hours = one.left()
            unknown = "hours unknown" if missing else ""
            print(f"{name:20} {missing:5} missing  " + (f"{hours:.1f} hours of one core" if hours else unknown))
        return
    if options.command == "list":
        print("\n".join(f"{name:20} {one.about.splitlines()[0]}" for name, one in sorted(found.items())))
        return
    if unknown := [name for name in options.names if name not in found]:
        parser.error(f"there is no experiment {unknown[0]}; choose from {', '.join(sorted(found))}")
    chosen = [found[name] for name in options.names or sorted(found)]
    if options.command == "check":
        lines = [line for one in chosen for line in one.differences()]
        raise SystemExit("\n".join(lines) or None)
    if options.only and options.write:
        parser.error("pages show all settings; leave out --only, or --write")
    jobs = 0 if options.recorded else options.jobs
    measured = [(one, one.run(jobs, options.only, options.again)) for one in chosen]
    for one, records in measured:  # pages may also need the records of later ones
        records = one.recorded() if options.only else records  # a table may compare with other settings
        tables = [place for place in one.pages if "#" in place]
        for place in tables or [place for place in one.pages if place.endswith(".csv")]:
            print(f"{place}\n{one.pages[place](records)!s}\n")
        if options.write:
            one.write(records)


if __name__ == "__main__":
    main()
