//! Maps modules to packages, where their names differ or the package is well known.

use super::Package;

/// Modules and the packages that provide them, each verified on the index. These may be installed without asking
/// (`--install allow`): add only well-known, well-maintained packages.
const PACKAGES: [(&str, &str); 85] = [
    ("altair", "altair"),
    ("arch", "arch"),
    ("Bio", "biopython"),
    ("bokeh", "bokeh"),
    ("bs4", "beautifulsoup4"),
    ("cartopy", "cartopy"),
    ("catboost", "catboost"),
    ("chardet", "chardet"),
    ("cloudpickle", "cloudpickle"),
    ("cv2", "opencv-python-headless"),
    ("cvxpy", "cvxpy"),
    ("dask", "dask"),
    ("dateparser", "dateparser"),
    ("dateutil", "python-dateutil"),
    ("dill", "dill"),
    ("docx", "python-docx"),
    ("dotenv", "python-dotenv"),
    ("duckdb", "duckdb"),
    ("folium", "folium"),
    ("fastparquet", "fastparquet"),
    ("geopandas", "geopandas"),
    ("geopy", "geopy"),
    ("git", "GitPython"),
    ("gensim", "gensim"),
    ("h5netcdf", "h5netcdf"),
    ("h5py", "h5py"),
    ("holidays", "holidays"),
    ("html5lib", "html5lib"),
    ("httpx", "httpx"),
    ("humanize", "humanize"),
    ("imageio", "imageio"),
    ("ipywidgets", "ipywidgets"),
    ("jinja2", "Jinja2"),
    ("joblib", "joblib"),
    ("jsonschema", "jsonschema"),
    ("lifelines", "lifelines"),
    ("lightgbm", "lightgbm"),
    ("lxml", "lxml"),
    ("markdown", "Markdown"),
    ("matplotlib", "matplotlib"),
    ("mpl_toolkits", "matplotlib"),
    ("mpmath", "mpmath"),
    ("nbformat", "nbformat"),
    ("netCDF4", "netCDF4"),
    ("networkx", "networkx"),
    ("nltk", "nltk"),
    ("numba", "numba"),
    ("numpy", "numpy"),
    ("odf", "odfpy"),
    ("openpyxl", "openpyxl"),
    ("pandas", "pandas"),
    ("patsy", "patsy"),
    ("PIL", "pillow"),
    ("pingouin", "pingouin"),
    ("plotly", "plotly"),
    ("plotnine", "plotnine"),
    ("polars", "polars"),
    ("psycopg", "psycopg"),
    ("psycopg2", "psycopg2-binary"),
    ("pyarrow", "pyarrow"),
    ("pymysql", "PyMySQL"),
    ("pypdf", "pypdf"),
    ("pyreadstat", "pyreadstat"),
    ("python_calamine", "python-calamine"),
    ("pytz", "pytz"),
    ("requests", "requests"),
    ("scipy", "scipy"),
    ("seaborn", "seaborn"),
    ("shapely", "shapely"),
    ("skimage", "scikit-image"),
    ("sklearn", "scikit-learn"),
    ("sqlalchemy", "SQLAlchemy"),
    ("statsmodels", "statsmodels"),
    ("sympy", "sympy"),
    ("tables", "tables"),
    ("tabulate", "tabulate"),
    ("tqdm", "tqdm"),
    ("umap", "umap-learn"),
    ("wordcloud", "wordcloud"),
    ("xarray", "xarray"),
    ("xgboost", "xgboost"),
    ("xlrd", "xlrd"),
    ("xlsxwriter", "XlsxWriter"),
    ("yaml", "PyYAML"),
    ("zstandard", "zstandard"),
];

/// Names that code imports although no package provides them: modules of Python 2, modules removed from Python, and
/// modules that exist only elsewhere.
const STANDARD: [(&str, &str); 16] = [
    ("ConfigParser", "it is `configparser` since Python 3"),
    ("Queue", "it is `queue` since Python 3"),
    ("StringIO", "it is `io.StringIO` since Python 3"),
    ("cPickle", "it is `pickle` since Python 3"),
    ("urllib2", "it is `urllib.request` since Python 3"),
    ("urlparse", "it is `urllib.parse` since Python 3"),
    ("Tkinter", "there is no window to draw in"),
    ("tkinter", "there is no window to draw in"),
    ("turtle", "there is no window to draw in"),
    ("asynchat", "Python has it no more"),
    ("cgi", "Python has it no more"),
    (
        "distutils",
        "Python has it no more; `packaging` and `shutil` have most of it",
    ),
    ("imp", "it is `importlib` now"),
    ("pkg_resources", "it is `importlib.metadata` now"),
    ("winreg", "it is for Windows"),
    ("google", "it only runs in Colab"),
];

/// Looks up a module.
pub fn package_of(module: &str) -> Option<Package> {
    let named = PACKAGES.iter().find(|(name, _)| *name == module);
    let standard = STANDARD.iter().find(|(name, _)| *name == module);
    named
        .map(|(_, package)| Package::Named(package))
        .or_else(|| standard.map(|(_, instead)| Package::Standard(instead)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_have_their_packages() {
        for (module, package) in [
            ("cv2", "opencv-python-headless"),
            ("sklearn", "scikit-learn"),
            ("yaml", "PyYAML"),
            ("PIL", "pillow"),
            ("bs4", "beautifulsoup4"),
            ("dateutil", "python-dateutil"),
        ] {
            assert_eq!(package_of(module), Some(Package::Named(package)));
        }
        assert!(matches!(package_of("urllib2"), Some(Package::Standard(_))));
        assert_eq!(package_of("requestes"), None);
        let mut names: Vec<&str> = PACKAGES
            .iter()
            .chain(&STANDARD)
            .map(|(name, _)| *name)
            .collect();
        names.sort_unstable();
        let before = names.len();
        names.dedup();
        assert_eq!(names.len(), before);
    }
}
