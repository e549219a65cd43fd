import subprocess
import sys


def test_the_pytest_plugin_loads_nothing_of_corral_before_a_test_asks_for_a_cluster() -> None:
    script = (
        "import sys, corral.testing.pytest_plugin;"
        "print(sorted(name for name in sys.modules if name.startswith('corral') or name in ('aiohttp', 'msgspec')))"
    )

    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout

    assert loaded.strip() == "['corral', 'corral.testing', 'corral.testing.pytest_plugin']"
