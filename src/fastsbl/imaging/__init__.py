"""Point sources in images: PSF models, dictionaries of candidate sources, simulation, metrics, files.

Pixel centres are at the integers, counted from 0; x is the column.
"""

from fastsbl.imaging.catalog import (
    SourceCatalog,
    SourceFlag,
    add_sky_coordinates,
    empty_table,
    read_catalog,
)
from fastsbl.imaging.denoise import Denoised, NotPointSourcesWarning, denoise_details, denoise_image
from fastsbl.imaging.io import ImageData, ImageFormatError, iter_frames, read_image, write_image
from fastsbl.imaging.localize import locate_sources
from fastsbl.imaging.metrics import (
    CompletenessPurity,
    SourceMatch,
    completeness_purity,
    group_iou,
    iou,
    match_sources,
    matched_iou,
    nearest_distance,
    psnr,
)
from fastsbl.imaging.pixel_psf import PixelPSF, PSFNormalizationWarning
from fastsbl.imaging.psf import PSF, GaussianPSF, StampGradient, stamp_origin
from fastsbl.imaging.psf3d import GaussianPSF3D, StampGradient3D
from fastsbl.imaging.recovery import InjectionRecovery, RecoveryCurve, injection_recovery
from fastsbl.imaging.render import render_sources
from fastsbl.imaging.sources import (
    SourceDictionary,
    build_source_dictionary,
    grid_source_dictionary,
    sample_source_dictionary,
)
from fastsbl.imaging.stacks import locate_stack
from fastsbl.imaging.starfield import StarField, make_starfield

__all__ = [
    "PSF",
    "CompletenessPurity",
    "Denoised",
    "GaussianPSF",
    "GaussianPSF3D",
    "ImageData",
    "ImageFormatError",
    "InjectionRecovery",
    "NotPointSourcesWarning",
    "PSFNormalizationWarning",
    "PixelPSF",
    "RecoveryCurve",
    "SourceCatalog",
    "SourceDictionary",
    "SourceFlag",
    "SourceMatch",
    "StampGradient",
    "StampGradient3D",
    "StarField",
    "add_sky_coordinates",
    "build_source_dictionary",
    "completeness_purity",
    "denoise_details",
    "denoise_image",
    "empty_table",
    "grid_source_dictionary",
    "group_iou",
    "injection_recovery",
    "iou",
    "iter_frames",
    "locate_sources",
    "locate_stack",
    "make_starfield",
    "match_sources",
    "matched_iou",
    "nearest_distance",
    "psnr",
    "read_catalog",
    "read_image",
    "render_sources",
    "sample_source_dictionary",
    "stamp_origin",
    "write_image",
]
