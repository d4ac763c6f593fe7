"""The catalogue of the nine real data sets: names, origin, licence and the digest of their content."""

from __future__ import annotations

from dataclasses import dataclass

from eiv.datasets._parsers import (
    Parser,
    arff,
    blanks,
    cal_housing,
    commas,
    from_tgz,
    from_zip,
    semicolons,
    target_first,
    workbook,
)

__all__ = ["REAL"]

UCI = "https://archive.ics.uci.edu"
CC_BY = "CC BY 4.0"


@dataclass(frozen=True)
class Download:
    """A public address, and the function that reads the file from there."""

    url: str
    read: Parser


@dataclass(frozen=True)
class Description:
    """A real data set: its content, its origin, and the digest that identifies it.

    Attributes:
        name: the name for `load`.
        title: the title its creators gave it.
        creators: whom to cite.
        file: the name of its file, a comma-separated table with a header, gzip-compressed or not.
        n_rows: the number of rows.
        features: the names of the input columns, in order.
        targets: the names of the target columns, which come last; the first one is that of the common benchmark.
        source: the archive that keeps it.
        url: the page that describes it.
        doi: its digital object identifier, or that of the article it comes from.
        licence: the licence under which it may be used.
        downloads: addresses of the original, tried in this order.
        decimals: the digits after the decimal point that enter the digest.
        digest: SHA-256 of the content, see `eiv.datasets.real.content_digest`.

    """

    name: str
    title: str
    creators: str
    file: str
    n_rows: int
    features: tuple[str, ...]
    targets: tuple[str, ...]
    source: str
    url: str
    doi: str | None
    licence: str
    downloads: tuple[Download, ...]
    decimals: int
    digest: str

    @property
    def default_target(self) -> str:
        """The target of the common benchmark."""
        return self.targets[0]

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of the table, in order."""
        return self.features + self.targets


_ALL = (
    Description(
        name="yacht",
        title="Yacht Hydrodynamics",
        creators="J. Gerritsma, R. Onnink, A. Versluis (Delft Ship Hydromechanics Laboratory, 1981)",
        file="yacht.csv",
        n_rows=308,
        features=(
            "longitudinal_position",
            "prismatic_coefficient",
            "length_displacement_ratio",
            "beam_draught_ratio",
            "length_beam_ratio",
            "froude_number",
        ),
        targets=("residuary_resistance",),
        source="UCI 243",
        url=f"{UCI}/dataset/243/yacht+hydrodynamics",
        doi="10.24432/C5XG7R",
        licence=CC_BY,
        downloads=(
            Download(f"{UCI}/static/public/243/yacht+hydrodynamics.zip", from_zip("yacht_hydrodynamics.data", blanks)),
        ),
        decimals=3,
        digest="1025530078a9cd5f229a93c9c2b44440e19b0a81b22fafa6d4e3f8a11ad0820c",
    ),
    Description(
        name="naval",
        title="Condition Based Maintenance of Naval Propulsion Plants",
        creators="A. Coraddu, L. Oneto, A. Ghio, S. Savio, D. Anguita, M. Figari (2014)",
        file="naval.csv",
        n_rows=11934,
        features=(
            "lever_position",
            "ship_speed",
            "gt_shaft_torque",
            "gt_revolutions",
            "gg_revolutions",
            "starboard_propeller_torque",
            "port_propeller_torque",
            "hp_turbine_exit_temperature",
            "gt_compressor_inlet_temperature",
            "gt_compressor_outlet_temperature",
            "hp_turbine_exit_pressure",
            "gt_compressor_inlet_pressure",
            "gt_compressor_outlet_pressure",
            "gt_exhaust_gas_pressure",
            "turbine_injection_control",
            "fuel_flow",
        ),
        targets=("gt_compressor_decay", "gt_turbine_decay"),
        source="UCI 316",
        url=f"{UCI}/dataset/316/condition+based+maintenance+of+naval+propulsion+plants",
        doi="10.24432/C5K31K",
        licence=CC_BY,
        downloads=(
            Download(
                f"{UCI}/static/public/316/condition+based+maintenance+of+naval+propulsion+plants.zip",
                from_zip("UCI CBM Dataset/data.txt", blanks),
            ),
        ),
        decimals=3,
        digest="448f7931c62f85d95e4fc5465fe57908d99c4be5055e0b9c7a49ba5bf3c6d42c",
    ),
    Description(
        name="protein",
        title="Physicochemical Properties of Protein Tertiary Structure",
        creators="P. S. Rana (2013), data from CASP 5-9",
        file="protein.csv.gz",
        n_rows=45730,
        features=("F1", "F2", "F3", "F4", "F5", "F6", "F7", "F8", "F9"),
        targets=("RMSD",),
        source="UCI 265",
        url=f"{UCI}/dataset/265/physicochemical+properties+of+protein+tertiary+structure",
        doi="10.24432/C5QW3H",
        licence=CC_BY,
        downloads=(
            Download(
                f"{UCI}/static/public/265/physicochemical+properties+of+protein+tertiary+structure.zip",
                from_zip("CASP.csv", target_first),
            ),
        ),
        decimals=5,
        digest="71576e6f1918541124f7403f49be195250acd41c95d2d5f427642403490c0122",
    ),
    Description(
        name="concrete",
        title="Concrete Compressive Strength",
        creators="I-C. Yeh (1998)",
        file="concrete.csv",
        n_rows=1030,
        features=(
            "cement",
            "blast_furnace_slag",
            "fly_ash",
            "water",
            "superplasticizer",
            "coarse_aggregate",
            "fine_aggregate",
            "age",
        ),
        targets=("compressive_strength",),
        source="UCI 165",
        url=f"{UCI}/dataset/165/concrete+compressive+strength",
        doi="10.24432/C5PK67",
        licence=CC_BY,
        # UCI's own table. Its zip holds an old Excel file, with more digits than it shows and than others use.
        downloads=(Download(f"{UCI}/static/public/165/data.csv", commas),),
        decimals=2,
        digest="76e2f6c36728581f98689967d2dddc34007eb8003b446251ae835e1355145e0b",
    ),
    Description(
        name="kin8nm",
        title="Forward kinematics of an 8-link robot arm (Kin family, variant 8nm)",
        creators="Z. Ghahramani (1996)",
        file="kin8nm.csv",
        n_rows=8192,
        features=("theta1", "theta2", "theta3", "theta4", "theta5", "theta6", "theta7", "theta8"),
        targets=("y",),
        source="DELVE; OpenML 189",
        url="https://www.openml.org/d/189",
        doi=None,
        licence="not stated by DELVE; OpenML lists it as public",
        downloads=(
            Download("https://api.openml.org/data/v1/download/3626", arff),
            Download("https://www.openml.org/data/download/3626/dataset_2175_kin8nm.arff", arff),
        ),
        decimals=6,  # public copies differ by up to 5e-11
        digest="2aecf273def21b82780e4f93cba14d90e748eb8666949227895a1d6a79f52b4d",
    ),
    Description(
        name="wine",
        title="Wine Quality (red vinho verde)",
        creators="P. Cortez, A. Cerdeira, F. Almeida, T. Matos, J. Reis (2009)",
        file="wine.csv",
        n_rows=1599,
        features=(
            "fixed_acidity",
            "volatile_acidity",
            "citric_acid",
            "residual_sugar",
            "chlorides",
            "free_sulfur_dioxide",
            "total_sulfur_dioxide",
            "density",
            "pH",
            "sulphates",
            "alcohol",
        ),
        targets=("quality",),
        source="UCI 186",
        url=f"{UCI}/dataset/186/wine+quality",
        doi="10.24432/C56S3T",
        licence=CC_BY,
        downloads=(Download(f"{UCI}/static/public/186/wine+quality.zip", from_zip("winequality-red.csv", semicolons)),),
        decimals=5,
        digest="61d3cc0668704d4e369b3dbaf28abd9d96b68d0bb74ce9255e1f5d923092d370",
    ),
    Description(
        name="power",
        title="Combined Cycle Power Plant",
        creators="P. Tufekci, H. Kaya (2014)",
        file="power.csv",
        n_rows=9568,
        features=("AT", "V", "AP", "RH"),
        targets=("PE",),
        source="UCI 294",
        url=f"{UCI}/dataset/294/combined+cycle+power+plant",
        doi="10.24432/C5002N",
        licence=CC_BY,
        # The workbook holds the same rows in five orders; the benchmark uses that of the last sheet.
        downloads=(
            Download(
                f"{UCI}/static/public/294/combined+cycle+power+plant.zip",
                from_zip("Folds5x2_pp.xlsx", workbook("Sheet5", decimals=2)),
            ),
        ),
        decimals=2,
        digest="6a7f53aaa0d3c70f8927b48a9271e7644043995d4230317855fc1f4d6b3e28c4",
    ),
    Description(
        name="energy",
        title="Energy Efficiency",
        creators="A. Tsanas, A. Xifara (2012)",
        file="energy.csv",
        n_rows=768,
        features=(
            "relative_compactness",
            "surface_area",
            "wall_area",
            "roof_area",
            "overall_height",
            "orientation",
            "glazing_area",
            "glazing_area_distribution",
        ),
        targets=("heating_load", "cooling_load"),
        source="UCI 242",
        url=f"{UCI}/dataset/242/energy+efficiency",
        doi="10.24432/C51307",
        licence=CC_BY,
        downloads=(
            Download(f"{UCI}/static/public/242/data.csv", commas),
            Download(
                f"{UCI}/static/public/242/energy+efficiency.zip",
                from_zip("ENB2012_data.xlsx", workbook(None, decimals=2)),
            ),
        ),
        decimals=2,
        digest="5353acabcb2c2e02eaf8f463fb6f3b02a535882ae633cee55f4319935d8c1115",
    ),
    Description(
        name="california",
        title="California Housing",
        creators="R. K. Pace, R. Barry (1997), Statistics and Probability Letters 33, 291-297",
        file="california.csv",
        n_rows=20640,
        features=(
            "MedInc",
            "HouseAge",
            "AveRooms",
            "AveBedrms",
            "Population",
            "AveOccup",
            "Latitude",
            "Longitude",
        ),
        targets=("MedHouseVal",),
        source="StatLib; L. Torgo",
        url="https://www.dcc.fc.up.pt/~ltorgo/Regression/cal_housing.html",
        doi="10.1016/S0167-7152(96)00140-X",
        licence="not stated; derived from the 1990 US census",
        downloads=(
            Download(
                "https://www.dcc.fc.up.pt/~ltorgo/Regression/cal_housing.tgz",
                from_tgz("cal_housing.data", cal_housing),
            ),
            Download("https://ndownloader.figshare.com/files/5976036", from_tgz("cal_housing.data", cal_housing)),
        ),
        decimals=6,
        digest="257e4ac75a7639228bd65e33e88827d6d012d35eca406f483dab2fe4b6b383f5",
    ),
)

REAL: dict[str, Description] = {description.name: description for description in _ALL}
