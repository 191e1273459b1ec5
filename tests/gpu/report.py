"""One page about the engine on this machine's GPU, to send along with an issue: `make gpu-report`."""

import importlib.metadata
import platform
import subprocess
import sys

PACKAGES = ("tensorrt_llm", "torch", "grpcio", "protobuf", "openai-harmony", "openresponses")


def output_of(*command: str) -> str:
    """What a command prints, or why it cannot be run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"{command[0]}: {error.strerror}"
    return (done.stdout + done.stderr).strip()


def version_of(package: str) -> str:
    """A package's version, or that there is none."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def main() -> None:
    """Print the page."""
    print(f"# GPU report\n\nPython {platform.python_version()} on {platform.platform()}\n")
    for package in PACKAGES:
        print(f"- {package} {version_of(package)}")
    query = "--query-gpu=name,driver_version,memory.total"
    for title, command in {
        "GPU": ("nvidia-smi", query, "--format=csv"),
        "Engine tests": (sys.executable, "-m", "pytest", "tests/gpu", "-q", "-rs", "--tb=short"),
        "Benchmark": (sys.executable, "-m", "tests.bench.run", "--streams", "1,64"),
    }.items():
        print(f"\n## {title}\n\n```\n{output_of(*command)}\n```")


if __name__ == "__main__":
    main()
