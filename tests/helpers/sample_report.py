"""A report that holds one of everything, to look at and to test."""

import numpy as np

EVIL = "<script>document.title='owned'</script>\"'><img src=x onerror=\"document.title='owned'\">$\\frac{{1}}$\x1b"


def sample_report(name="plain"):
    """A report with every kind of part; ``name`` turns up wherever a file could have named something."""
    from fastsbl.imaging import make_starfield
    from fastsbl.report import Note, Report, Section
    from fastsbl.studies import Claim, Table
    from fastsbl.studies.figures import (
        BarStrip,
        HeatMap,
        ImageGrid,
        ImagePanel,
        LineFigure,
        Marks,
        ScatterFigure,
        Series,
    )

    rng = np.random.default_rng(0)
    x = np.array([0.05, 0.1, 0.2, 0.5])
    field = make_starfield(snr_db=10, rng=1)
    lines = LineFigure(
        name="lines", title=f"Lines {name}", alt=f"Rising lines {name}", caption=f"Caption {name}", x_label=name,
        y_label="percent", x_scale="log", guides=((50.0, f"half {name}"),),
        series=(Series(name, x, 100 * x, low=90 * x, high=110 * x), Series("b", x, 80 * x, emphasis=True)),
    )  # fmt: skip
    points = ScatterFigure(
        name="points", title="Points", alt="A cloud", x_label="x", y_label="y",
        series=(Series("a", rng.normal(size=9), np.zeros(9), low=-np.ones(9), high=np.ones(9)),),
    )  # fmt: skip
    heat = HeatMap(
        name="heat", title="Heat", alt="A table of colours", values=[[1.0, np.nan], [3.0, 4.0]], rows=("x", "y"),
        columns=(name, "b"), x_label="x", y_label="y", value_label="share", show_values=True,
    )  # fmt: skip
    panels = [ImagePanel(field.image, title="data", marks=(Marks("true", field.x, field.y, "truth"),))]
    for k, ratio in enumerate((0.5, 0.3, 0.1)):
        found = Marks("found", field.x[: k + 1], field.y[: k + 1], "found")
        panels.append(ImagePanel(field.clean * k, title="model", note=f"{k} sources", step=f"{ratio}", marks=(found,)))
    walk = ImageGrid(
        name="walk", title=f"Walk {name}", alt="The field", panels=tuple(panels), columns=2, slider="lambda share",
        shared_scale=True,
    )  # fmt: skip
    strip = BarStrip(
        name="strip", title="Scores", alt="A strip", scores=rng.uniform(size=(3, 20)), classes=("0", "1", "2"),
        steps=np.linspace(0.1, 0.9, 20), x_label="ratio", y_label="class", value_label="score", truth="1",
        image=ImagePanel(field.image, title="digit"),
    )  # fmt: skip
    rows = ((f"b {name}", 3.25, 10), ("a", -1e-5, 2), ("c", float("nan"), 300))
    table = Table("sources", f"Sources {name}", ("name", "flux", "count"), rows, caption=name)
    claims = (
        Claim(f"It is safe {name}", "paper", "0 wrong", "holds", 0.0),
        Claim("It is ten times faster", "paper", "3.1 times", "does not hold", 3.1),
        Claim("It is small", "paper", "", "holds for large lambda only"),
        Claim("It is known", "paper", "", "not measured"),
    )
    return Report(
        f"A sample {name}",
        f"What happened {name}.",
        [
            Section(f"Figures {name}", [Note(f"A note {name}"), lines, points, heat]),
            Section("Images", [walk, strip]),
            Section("Tables", [table, claims]),
        ],
        command=f"fastsbl demo --out '{name}'",
        environment={"python": "3", f"key {name}": name},
        highlights={"found": name, "reads": "3.4"},
    )
