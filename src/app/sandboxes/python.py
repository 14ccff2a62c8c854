# What E2B's clients expect of a Python kernel: tables and figures of matplotlib come with their data, lists and dictionaries as
# JSON, and pictures of PIL are shown when they are saved or shown. Nothing is imported that the code has not imported. Comes after figures.py.
def _sponde_e2b(figures):
    import sys

    from IPython import get_ipython
    from IPython.core.formatters import BaseFormatter, catch_format_error
    from traitlets import ObjectName, Unicode

    # Values that are given of a table.
    VALUES = 1_000_000
    shell = get_ipython()
    formatters = shell.display_formatter.formatters
    if "e2b/data" in formatters:
        return

    def table(frame):
        if frame.size > VALUES:
            return None
        return {str(name): [figures.plain(it) for it in frame.iloc[:, at].tolist()] for at, name in enumerate(frame.columns)}

    def chart(figure):
        found, problem = figures.quietly(figures.chart, figure)
        # The clients keep what else a chart of no kind has.
        return found or {"type": "unknown", "title": None, "elements": [], "problem": problem}

    def formatter(kind, method, module, name, make):
        class Own(BaseFormatter):
            format_type = Unicode(kind)
            print_method = ObjectName(method)
            _return_type = (dict, str)

            # What goes wrong is shown as IPython shows it.
            @catch_format_error
            def __call__(self, thing):
                found = getattr(sys.modules.get(module), name, None)
                if found is None or not isinstance(thing, found):
                    return super().__call__(thing)
                return make(thing)

        formatters[kind] = Own(parent=shell.display_formatter)

    formatter("e2b/data", "_repr_e2b_data_", "pandas", "DataFrame", table)
    formatter("e2b/chart", "_repr_e2b_chart_", "matplotlib.figure", "Figure", chart)

    before = formatters["application/json"]

    class Json(type(before)):
        def __call__(self, thing):
            if type(thing) in (list, dict) and len(thing) <= VALUES:
                try:
                    return figures.plain(thing)
                except RecursionError:
                    # It contains itself, so JSON cannot have it.
                    return None
            return super().__call__(thing)

    formatters["application/json"] = Json(parent=shell.display_formatter)

    # Pictures of PIL.
    class Finder:
        """Waits until somebody imports PIL.Image."""

        @staticmethod
        def find_spec(name, path=None, target=None):
            if name != "PIL.Image":
                return None
            sys.meta_path.remove(Finder)
            from importlib.util import find_spec

            spec = find_spec(name)
            load = spec.loader.exec_module

            def loaded(module):
                load(module)
                pictures(module)

            spec.loader.exec_module = loaded
            return spec

    def pictures(module):
        from IPython.display import display

        original = module.Image.save

        def save(self, fp, format=None, **params):
            if isinstance(fp, str):
                display(self)
            return original(self, fp, format, **params)

        module.Image.save = save
        module.Image.show = lambda self, title=None: display(self)

    if "PIL.Image" in sys.modules:
        pictures(sys.modules["PIL.Image"])
    else:
        sys.meta_path.insert(0, Finder)


try:
    _sponde_e2b(_sponde_figures())
finally:
    del _sponde_e2b, _sponde_figures
