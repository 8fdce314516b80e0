"""The imaging package's public face, and what importing it costs."""

import subprocess
import sys

import fastsbl.imaging


def test_every_public_name_exists_and_is_documented():
    for name in fastsbl.imaging.__all__:
        assert getattr(fastsbl.imaging, name).__doc__, name


def test_importing_leaves_the_optional_packages_alone():
    code = (
        "import sys, fastsbl.imaging; "
        "heavy = ['astropy', 'tifffile', 'skimage', 'PIL', 'photutils', 'matplotlib', 'sklearn']; "
        "sys.exit(', '.join(name for name in heavy if name in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
