"""A page in headless Chromium, and what a script of a test finds in it."""

import re
import shutil
import subprocess

import pytest

#: The names of the program.
NAMES = ("chromium", "chromium-browser", "google-chrome")


def browser():
    """The path of a browser, or skip the test."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"no browser is installed ({', '.join(NAMES)})")
    return found


#: Lets scripts report what they find, as elements, and reports what goes wrong.
REPORT = """<script>
  const report = (name, value) => {
    const found = document.createElement("meta");
    found.name = name;
    found.content = String(value);
    document.head.append(found);
  };
  window.addEventListener("error", event => report("error", event.message));
  document.addEventListener("securitypolicyviolation",
    event => report("violation", event.blockedURI));
</script>"""


def reports(page, script, folder):
    """What a script reports by ``report(name, value)`` that runs after those of a page.

    An error of any script is reported as ``error``.
    """
    begin, end = page.replace("<style>", f"{REPORT}<style>", 1).rsplit("</body>", 1)
    file = folder / "page.html"
    file.write_text(f"{begin}<script>{{{script}}}</script></body>{end}")
    flags = ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}")
    done = subprocess.run(
        [browser(), *flags, "--window-size=1000,800", "--dump-dom", file.as_uri()],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    found = re.findall(r'<meta name="([^"]*)" content="([^"]*)">', done.stdout)
    return {name: value for name, value in found if name != "viewport"}
