"""Write docs/CONFIG.md: every key of conf/ with its range."""

from pathlib import Path

from dab.engine.reference import page

ROOT = Path(__file__).resolve().parents[1]

if __name__ == "__main__":
    path = ROOT / "docs/CONFIG.md"
    path.write_text(page(ROOT / "conf"))
    print(path)
