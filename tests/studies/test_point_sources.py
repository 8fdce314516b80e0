"""The studies of point sources: localisation and denoising."""

from dataclasses import replace

import numpy as np
import pytest

from fastsbl.imaging import make_starfield, psnr
from fastsbl.studies import Store, config_to_toml, find_study, run_study
from fastsbl.studies import denoising as denoising_module
from fastsbl.studies._denoisers import WAVELETS, cycle_spun, missing_package, wavelet_images
from fastsbl.studies._field_readings import snr_name, snr_tag, true_ratio
from fastsbl.studies._fields import ZERO, Fields, field_of, image_of, position_scores
from fastsbl.studies.denoising import FOUR_TENTHS, DenoisingConfig
from fastsbl.studies.figures import ImageGrid, LineFigure
from fastsbl.studies.localization import LocalizationConfig
from fastsbl.studies.screening import SolverPlan

TINY = {"targets": 2, "ratios": (0.0, 0.1, 0.5), "snr_db": (10.0,), "side": 20, "sources": 2, "features": 300}
LOCALIZATION = LocalizationConfig(
    **TINY, screened_ratios=(0.1, 0.3, 0.6), plans=(SolverPlan("cd", ("two_hyperplanes:paper", "auto"), pairs=1),)
)
DENOISING = DenoisingConfig(**TINY, compared_db=(15.0, 0.4, FOUR_TENTHS), factors=(1.0, 3.0, 10.0))


@pytest.fixture(scope="module", params=["localization", "denoising"])
def run(request, tmp_path_factory):
    """A study with its configuration and the folder of its results."""
    if request.param == "denoising":
        pytest.importorskip("skimage", reason="wavelets need scikit-image")
    pytest.importorskip("astropy", reason="catalogues need astropy")
    study = find_study(request.param)
    config = {"localization": LOCALIZATION, "denoising": DENOISING}[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    summary = run_study(study, config, folder)
    assert summary.failed == 0
    assert summary.done == len(study.units(config))
    return study, config, folder


def without_times(study, store):
    return [{k: v for k, v in row.items() if k not in study.timings} for row in store.records()]


def test_what_a_run_leaves(run):
    study, config, folder = run
    with Store.open(folder) as store:
        assert store.warnings() == {}
        assert study.config(store) == config
        claims, figures, tables = study.claims(store), study.figures(store), study.tables(store)
    assert {claim.source for claim in claims} >= {"this library"}
    assert all(claim.sentence.endswith(".") for claim in claims)
    assert sum(claim.verdict != "not measured" for claim in claims) >= 6
    names = [figure.name for figure in figures]
    assert len(set(names)) == len(names)
    assert any(isinstance(figure, LineFigure) for figure in figures)
    walks = [figure for figure in figures if isinstance(figure, ImageGrid) and figure.slider]
    assert [panel.step for panel in walks[0].panels[::2]] == [f"0 (as {ZERO:g})", "0.1", "0.5"]
    assert tables
    text = (folder / "claims.md").read_text(encoding="utf-8")
    assert all(claim.sentence in text for claim in claims)


def test_figures_are_drawn_and_the_report_has_a_slider(run):
    report = pytest.importorskip("fastsbl.report")
    pytest.importorskip("matplotlib")
    from fastsbl.report.studies import study_report

    study, _, folder = run
    with Store.open(folder) as store:
        page, figures, _ = study_report(study, store)
    text = report.render_report(page)  # draws them all
    assert text.count("<figure") == len(figures)
    assert text.count('class="slider"') >= 1
    assert 'data-label="0 (as 0.001)"' in text


def test_an_interrupted_run_ends_with_the_same_results(run, tmp_path, monkeypatch):
    study, config, folder = run
    whole, calls = type(study).run_unit, []

    def stop_on_the_way(self, context, unit):
        calls.append(unit)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return whole(self, context, unit)

    few = replace(config, targets=1, scalings=("unit",), ratios=(0.1, 0.5))
    if hasattr(few, "rejection"):
        few = replace(few, screened_ratios=(0.3,))
    monkeypatch.setattr(type(study), "run_unit", stop_on_the_way)
    with pytest.raises(KeyboardInterrupt):
        run_study(study, few, tmp_path)
    monkeypatch.undo()
    resumed = run_study(study, few, tmp_path)
    assert (resumed.before, resumed.done) == (5, len(study.units(few)) - 5)
    with Store.open(folder) as all_units, Store.open(tmp_path) as some:
        known = {unit.id for unit in study.units(config)}
        common = [row for row in without_times(study, all_units) if row.get("ratio") in (0.1, 0.5)]
        again = [row for row in without_times(study, some) if row.get("task") == "fit"]
        assert {unit.id for unit in study.units(few) if unit.key["task"] == "fit"} <= known
        assert again
        assert all(row in common for row in again)


@pytest.mark.parametrize("name", ["localization", "denoising"])
def test_quick_is_small(name):
    study = find_study(name)
    quick = study.quick(study.config_type())
    assert quick.targets == 2
    assert quick.features == 1_500
    assert sum(unit.cost for unit in study.units(quick)) < 60
    assert len(study.units(quick)) < len(study.units(study.config_type())) / 10
    assert study.quick(study.config_type(ratios=(0.2, 0.25), snr_db=(3.0,))).ratios == (0.2, 0.25)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("localization", {"ratios": (0.1, 1.1)}, "ratios must be numbers from 0 to 1"),
        ("localization", {"ratios": (0.0, ZERO)}, "must not hold both 0 and 0.001"),
        ("localization", {"ratios": (0.1, 0.1)}, "none of them twice"),
        ("localization", {"signs": ()}, "signs must be at least one value"),
        ("localization", {"targets": 0}, "targets must be at least 1, got 0"),
        ("localization", {"sigma_range": (2.0, 1.0)}, "sigma_range must be two numbers"),
        ("localization", {"margin": 14.0}, "margin must lie from 0 to half of side"),
        ("localization", {"scale": 0.0}, "scale must be above 0"),
        ("localization", {"box": -1.0}, "box must be above 0"),
        ("localization", {"screened_ratios": (2.0,)}, "screened_ratios must be numbers above 0"),
        ("localization", {"seed": -1}, "seed must be at least 0"),
        ("denoising", {"compared_db": (0.0, 0.0)}, "compared_db must not hold a value twice"),
        ("denoising", {"factors": (0.0,)}, "factors must be numbers above 0"),
    ],
)
def test_configurations_without_sense(name, changes, message):
    with pytest.raises(ValueError, match=message):
        find_study(name).config_type(**changes)


# -- the set-up --------------------------------------------------------------------------------------------------
def test_fields_are_those_of_the_priors():
    config = LocalizationConfig(features=500, scale=7.0)
    fields = Fields(config)
    assert np.allclose(np.linalg.norm(fields.matrix, axis=0), 1.0)
    for values, low, high in ((fields.sources.x, 2, 25), (fields.sources.y, 2, 25), (fields.sources.sigma, 1, 3)):
        assert low <= values.min() < low + 0.2
        assert high - 0.2 < values.max() <= high
    one, other = fields.target(20.0, 3), fields.target(0.0, 3)
    assert np.array_equal(one.clean, other.clean)
    assert other.noise_variance == pytest.approx(100 * one.noise_variance)
    assert np.allclose((other.image - other.clean) / 10, one.image - one.clean)
    assert one.weight.max() <= 7.0
    assert not np.array_equal(one.clean, fields.target(20.0, 4).clean)


def test_a_fit_is_kept_as_sources():
    config = LocalizationConfig(features=400, side=20)
    fields = Fields(config)
    field = fields.target(10.0, 0)
    key = {"snr_db": 10.0, "sign": "signed", "target": 0, "ratio": 0.0}
    rows = {scaling: {**key, **fields.fit_ratio(field, {**key, "scaling": scaling})} for scaling in ("weights", "unit")}
    norm = np.linalg.norm(field.image)
    for row, unit in ((rows["weights"], 1.0), (rows["unit"], norm)):
        assert psnr(field.clean, image_of(config, row)) == pytest.approx(row["psnr"], abs=1e-6)
        assert row["y_norm"] == pytest.approx(norm / unit)
        assert row["lam"] == pytest.approx(ZERO * np.abs(fields.matrix.T @ field.image.ravel()).max() / unit)
        assert row["support"] == len(row["x"]) > 2
        assert true_ratio([row]) == pytest.approx(ZERO * field.noise_variance / unit**2 / row["lam"])
    assert rows["weights"]["psnr"] > psnr(field.clean, field.image)
    positive = fields.fit(field, 0.01, "nonnegative")
    assert min(positive["flux"]) > 0 > min(fields.fit(field, 1e-3, "signed")["flux"])


def test_scores_of_positions():
    truth = np.array([[5.0, 5.0], [15.0, 5.0]])
    exact = position_scores(truth, truth, 3.0)
    assert exact == {
        "group_iou": 1.0, "matched_iou": 1.0, "precision": 1.0, "recall": 1.0, "f1": 1.0, "rmse": 0.0,
        "mean_distance": 0.0,
    }  # fmt: skip
    nothing = position_scores([], truth, 3.0)
    assert (nothing["group_iou"], nothing["f1"], nothing["mean_distance"]) == (0.0, 0.0, None)
    twice = position_scores([[5.0, 5.0], [5.0, 5.0], [5.0, 5.0]], truth, 3.0)
    assert twice["group_iou"] == 1.0
    assert twice["matched_iou"] == pytest.approx(1 / 3)
    assert (twice["precision"], twice["recall"]) == (pytest.approx(1 / 3), 0.5)


def test_names():
    assert [snr_name(snr) for snr in (10.0, 0.4, FOUR_TENTHS)] == ["10 dB", "0.4 dB", "-3.98 dB (power ratio 0.4)"]
    assert [snr_tag(snr) for snr in (10.0, 0.4, FOUR_TENTHS)] == ["10dB", "0p4dB", "minus3p98dB"]


# -- other methods -----------------------------------------------------------------------------------------------
def test_wavelets_come_in_six_variants():
    pytest.importorskip("skimage", reason="wavelets need scikit-image")
    field = make_starfield(snr_db=10.0, rng=5)
    images = dict(wavelet_images(field.image, field.noise_variance))
    assert list(images) == ["wavelet", *(f"cycle-spun {name}" for name in WAVELETS)]
    before = psnr(field.clean, field.image)
    default = psnr(field.clean, images["wavelet"])
    assert before + 1 < default < max(psnr(field.clean, image) for image in images.values())


def test_cycle_spinning_does_not_know_where_the_image_begins():
    image = np.random.default_rng(3).normal(size=(16, 16))

    def halve_a_corner(x):
        out = x.copy()
        out[:8, :8] /= 2
        return out

    assert np.allclose(cycle_spun(image, lambda x: x), image)
    spun, moved = cycle_spun(image, np.sign), cycle_spun(np.roll(image, (3, 5), (0, 1)), np.sign)
    assert np.allclose(np.roll(spun, (3, 5), (0, 1)), moved)
    assert not np.allclose(cycle_spun(image, halve_a_corner), halve_a_corner(image))


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    pytest.importorskip("skimage")
    assert missing_package("sbl") is None
    word = "bm3d is not installed (pip install bm3d)"
    monkeypatch.setattr(denoising_module, "missing_package", lambda method: word if method == "bm3d" else None)
    study = find_study("denoising")
    config = replace(DENOISING, targets=1, ratios=(0.5,), compared_db=(15.0,), factors=(3.0,), scalings=("unit",))
    assert run_study(study, config, tmp_path).failed == 0
    with Store.open(tmp_path) as store:
        (row,) = store.records(method="bm3d")
        assert row["psnr"] is None
        (table, _) = study.tables(store)
        assert "BM3D" not in [line[0] for line in table.rows]
        assert table.caption.endswith(f"Skipped: {word}.")
        assert study.figures(store)


# -- claims can be held and refuted ------------------------------------------------------------------------------
def store_of(folder, name, config, rows):
    """A store with made-up records."""
    from fastsbl.studies import Unit

    store = Store.create(folder, name, config_to_toml(config))
    number = store.begin_run({})
    for position, row in enumerate(rows):
        key = {k: row[k] for k in ("task", "snr_db", "sign", "scaling", "target", "ratio", "method") if k in row}
        store.add(position, Unit(key), [row], run=number, seconds=0.0)
    return store


def verdicts(study, store):
    return {claim.sentence: (claim.verdict, claim.number) for claim in study.claims(store)}


def find(found, words):
    (answer,) = (value for sentence, value in found.items() if words in sentence)
    return answer


def localization_rows(iou, f1, distance, refined, rejected):
    base = {"snr_db": 10.0, "scaling": "unit", "lam": 1.0, "noise_variance": 0.5}
    rows = []
    for target in range(3):
        for ratio in (0.1, 0.2, 0.3, 0.5, 0.6, 0.7):
            scores = {"group_iou": iou(ratio), "matched_iou": iou(ratio), "f1": f1(ratio), "support": 4}
            more = {"lam": ratio, "rmse": None, "mean_distance": distance(ratio)}
            key = {**base, "task": "fit", "sign": "signed", "target": target, "ratio": ratio}
            rows.append({**key, **scores, **more})
            record = {"iteration": 1, "rejected two_hyperplanes:paper": rejected(ratio), "problem": "made up"}
            rows.append({**base, "task": "rejection", "target": target, "ratio": ratio, **record})
        key = {"task": "refined", "snr_db": 10.0, "target": target}
        rows.append({**key, "matched_iou": refined, "group_iou": refined, "f1": refined, "support": 4})
    return rows


@pytest.mark.parametrize("holds", [True, False])
def test_claims_on_localisation(tmp_path, holds):
    study, config = find_study("localization"), LOCALIZATION
    peak = 0.2 if holds else 0.5
    rows = localization_rows(
        iou=lambda r: 0.9 - abs(r - peak),
        f1=lambda r: 0.5 + (r if holds else -r / 2),
        distance=lambda r: 1 - r if holds else 1 + r,
        refined=0.95 if holds else 0.5,
        rejected=lambda r: max(r - 0.3, 0.0) if holds else r / 2,
    )
    with store_of(tmp_path, "localization", config, rows) as store:
        found = verdicts(study, store)
    word = "holds" if holds else "does not hold"
    assert find(found, "is highest for lambda/lambda_max in (.1, .2)") == (word, peak)
    assert find(found, "look a lot better")[0] == word
    assert find(found, "gathers around")[0] == word
    assert find(found, "which needs no lambda")[0] == word
    assert find(found, "increases rapidly")[0] == word
    assert find(found, "is no larger than .3")[0] == "not measured"
    near = find(found, "is the true variance of the noise")
    assert near == ("does not hold" if holds else "holds", pytest.approx(peak / 0.5))


@pytest.mark.parametrize("holds", [True, False])
def test_claims_on_denoising(tmp_path, holds):
    study, config = find_study("denoising"), DENOISING
    rows = []
    for target in range(8):
        for ratio in (0.1, 0.5, 0.6, 1.0):
            key = {"task": "fit", "snr_db": 15.0, "sign": "signed", "scaling": "unit", "target": target, "ratio": ratio}
            best = 30.0 - 10 * abs(ratio - (0.6 if holds else 0.1))
            rows.append({**key, "psnr": best, "psnr_noisy": 20.0, "lam": ratio, "noise_variance": 0.1})
        for snr in (15.0, FOUR_TENTHS):
            sbl = 30.0 if holds and snr > 10 else 25.0 if holds else 20.0 if snr > 10 else 40.0
            values = {
                "noisy": 5.0, "wavelet": 25.0, "cycle-spun db4": 26.0, "bm3d": 27.0,
                "denoise_image": 41.0 if holds else 19.0,
            }  # fmt: skip
            for variant, value in values.items():
                key = {"task": "compare", "snr_db": snr, "target": target, "method": variant}
                rows.append({**key, "variant": variant, "psnr": value + 0.1 * target})
            for factor in (1.0, 3.0, 10.0):
                down = abs(np.log10(factor / (1.0 if holds else 10.0)))
                key = {"task": "compare", "snr_db": snr, "target": target, "method": f"sbl {factor}"}
                more = {"variant": f"SBL signed {factor:g}", "sign": "signed", "factor": factor}
                rows.append({**key, **more, "psnr": sbl - down + 0.1 * target})
    with store_of(tmp_path, "denoising", config, rows) as store:
        found = verdicts(study, store)
        (table, _) = study.tables(store)
    word = "holds" if holds else "does not hold"
    assert find(found, "(.5, .6) yields the best PSNR") == (word, 0.6 if holds else 0.1)
    assert find(found, "near the true noise variance") == (word, 1.0 if holds else 10.0)
    assert find(found, "no significant difference") == (word, pytest.approx(0.0 if holds else 15.0))
    assert find(found, "SBL outperforms wavelets") == (word, pytest.approx(4.0 if holds else -6.0))
    assert find(found, "has a higher mean PSNR than all others")[0] == word
    assert find(found, "at any lambda of the grid")[0] == word
    assert find(found, '"SNR = .4"')[0] == ("does not hold" if holds else "holds")
    assert dict(zip(table.columns, table.rows[1], strict=True))["15 dB"] == "25.3"


def test_the_field_of_a_target_does_not_depend_on_the_others():
    one, many = LocalizationConfig(targets=1), LocalizationConfig(targets=9)
    assert np.array_equal(field_of(one, 10.0, 0).image, field_of(many, 10.0, 0).image)
