"""One file against the strongest baseline, or against another file, by PAIR: `assay candidate measure`."""

import secrets
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kernel_lab.backends.backend import NotBuilt
from kernel_lab.measure.bench import Bench, Progress, Protocol, Racer, open_bench, silent
from kernel_lab.measure.calibrate import LIGHT, Calibration, Effort, calibrate
from kernel_lab.measure.compare import Contest, comparison_of, why_failed
from kernel_lab.measure.contending import open_contending
from kernel_lab.measure.own_kernels import OwnKernels, build_own_kernels
from kernel_lab.measure.pairs import BaselineFailed, CandidateFailed, Duel
from kernel_lab.measure.race import A_A, a_a_duel, limiting
from kernel_lab.measure.roofs import RoofTimer, traffic_of
from kernel_lab.measure.statistics import level_per_look
from kernel_lab.measure.strongest import BaselineRacing, Field, NoBaseline, choose_baselines
from kernel_lab.spaces.launch import LaunchProblem, kernel_from_source
from kernel_lab.verify.blank import blank_object
from kernel_lab.verify.bench import make_bench
from kernel_lab.verify.file import Desk, fresh_seeds, open_desk, threads_of
from kernel_lab.verify.finding import Finding
from kernel_lab.verify.judge import judge, not_built
from kernel_lab.verify.ladder import ladder_version
from kernel_lab.verify.rungs import timed_outputs
from kernel_lab.verify.subject import Depth, Plan, Subject
from kernel_lab.workloads.workload import Workload
from schemas.enums import Dtype, JudgedAs, Language, RatioKind, Regime, Rung, RungStatus
from schemas.faults import Misconfigured, Transient
from schemas.goal import Shape
from schemas.measurement import Comparison, Contender, RoofPoint
from schemas.model import clip
from schemas.verdict import Judgement, RungResult
from schemas.work import MAX_SOURCE_BYTES
