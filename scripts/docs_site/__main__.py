"""Build the documentation site.

python -m scripts.docs_site build/site
"""

import argparse
import shutil
import tempfile
from pathlib import Path

from sphinx.cmd.build import build_main

from scripts.docs_site.pages import write_pages


def build(out: Path) -> int:
    """Write the site into a folder, whose earlier contents are deleted; return 0 if there was not one warning."""
    shutil.rmtree(out, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        write_pages(source)
        quiet = ["-q", "-W", "--keep-going", "-E"]
        here = str(Path(__file__).parent)
        return build_main([*quiet, "-b", "html", "-c", here, "-d", f"{folder}/doctrees", str(source), str(out)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder of the site; what is there is deleted")
    options = parser.parse_args()
    failed = build(options.out)
    if not failed:
        print(f"Open {options.out / 'index.html'} in a browser.")
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
