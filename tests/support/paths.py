"""Where the files are that tests read and run."""

from pathlib import Path

#: The checkout, and the scripts that ranks run.
ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).parent

#: Real topology files and small cases of other people, where they are at hand.
SHARED = ROOT.parent / "shared"
