# What E2B's clients expect of a Python kernel: tables and figures of matplotlib come with their data, lists and dictionaries as
# JSON, and pictures of PIL are shown when they are saved or shown. Nothing is imported that the code has not imported.
def _sponde_e2b():
    import math
    import re
    import sys

    from IPython import get_ipython
    from IPython.core.formatters import BaseFormatter
    from traitlets import ObjectName, Unicode

    # Values that are given of a table, points of a figure.
    VALUES, POINTS = 1_000_000, 100_000
    shell = get_ipython()
    formatters = shell.display_formatter.formatters
    if "e2b/data" in formatters:
        return

    def plain(value):
        """A value as JSON has it."""
        value = value.item() if hasattr(value, "item") and not hasattr(value, "__len__") else value
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        if type(value).__name__ in ("NaTType", "NAType"):
            return None
        if hasattr(value, "isoformat"):
            return value.isoformat()
        if isinstance(value, dict):
            return {str(key): plain(it) for key, it in value.items()}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [plain(it) for it in value]
        if hasattr(value, "tolist"):
            return plain(value.tolist())
        return str(value)

    def table(frame):
        if frame.size > VALUES:
            return None
        return {str(name): [plain(it) for it in frame.iloc[:, at].tolist()] for at, name in enumerate(frame.columns)}

    # Figures.
    def unit(label):
        found = re.search(r"\((.*?)\)", label or "")
        return found.group(1) if found else None

    def place(axis, values):
        """Values of an axis: moments for one of time, names for one of categories."""
        import numpy

        kind = scale(axis)
        if kind == "datetime":
            from matplotlib.dates import num2date

            given = numpy.asarray(values)
            if given.dtype.kind in "fiu":
                return [num2date(it).isoformat() for it in given.tolist()]
            return [plain(it) if hasattr(it, "isoformat") else str(it) for it in given.tolist()]
        if kind == "categorical":
            names = {at: name for name, at in axis.units._mapping.items()}
            return [names.get(it, str(plain(it))) if isinstance(it, (int, float)) else str(plain(it)) for it in list(values)]
        return [float(it) if not isinstance(it, str) else it for it in numpy.asarray(values).tolist()]

    def scale(axis):
        from matplotlib.category import UnitData
        from matplotlib.dates import DateConverter, _SwitchableDateConverter

        if isinstance(getattr(axis, "units", None), UnitData):
            return "categorical"
        get = getattr(axis, "get_converter", None)
        converter = get() if get else getattr(axis, "converter", None)
        if isinstance(converter, (DateConverter, _SwitchableDateConverter)):
            return "datetime"
        return axis.get_scale()

    def ticks(axis):
        from matplotlib.dates import num2date

        found = [float(it) for it in axis.get_ticklocs()]
        labels = [it.get_text() for it in axis.get_ticklabels()]
        kind = scale(axis)
        if kind == "datetime":
            return [num2date(it).isoformat() for it in found], labels, kind
        return found, labels, kind

    def label_of(thing):
        return str(thing.get_label())

    def titled(kind, axes, elements):
        return {"type": kind, "title": axes.get_title() or None, "elements": elements}

    def labelled(chart, axes):
        x, y = axes.get_xlabel() or None, axes.get_ylabel() or None
        return {**chart, "x_label": x, "y_label": y, "x_unit": unit(x), "y_unit": unit(y)}

    def points(kind, axes, clouds):
        elements, left = [], POINTS
        for name, x, y in clouds:
            left -= len(x)
            if left >= 0:
                elements.append({"label": name, "points": [list(it) for it in zip(place(axes.xaxis, x), place(axes.yaxis, y))]})
        chart = labelled(titled(kind, axes, elements), axes)
        for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
            chart[f"{name}_ticks"], chart[f"{name}_tick_labels"], chart[f"{name}_scale"] = ticks(axis)
        return chart

    def pie(axes, wedges):
        return titled("pie", axes, [
            {"label": label_of(it), "angle": round(abs(float(it.theta2) - float(it.theta1)), 4), "radius": float(it.r)} for it in wedges
        ])

    def bars(axes, groups):
        elements = []
        for group in groups:
            lies = getattr(group, "orientation", "vertical") == "horizontal"
            axis = axes.yaxis if lies else axes.xaxis
            if scale(axis) == "categorical":
                names = {float(at): name for name, at in axis.units._mapping.items()}
            elif type(axis.get_major_locator()).__name__ == "FixedLocator":
                names = {float(at): it.get_text() for at, it in zip(axis.get_ticklocs(), axis.get_ticklabels())}
            else:
                names = {}
            for one in group.patches:
                middle = one.get_y() + one.get_height() / 2 if lies else one.get_x() + one.get_width() / 2
                # Bars beside each other share a place.
                nearest = min(names, key=lambda it: abs(it - float(middle)), default=None)
                name = names[nearest] if nearest is not None and abs(nearest - float(middle)) <= 0.5 else None
                elements.append({
                    "label": str(name or f"{middle:g}"),
                    "group": label_of(group),
                    "value": plain(one.get_width() if lies else one.get_height()),
                })
        return labelled(titled("bar", axes, elements), axes)

    def boxes(axes):
        """The five lines and the outliers of each box, as `Axes.bxp` draws them."""
        from matplotlib.patches import PathPatch

        lines = [it for it in axes.get_lines() if len(it.get_xdata())]
        drawn = [it for it in axes.patches if isinstance(it, PathPatch)]
        closed = [it for it in lines if len(it.get_xdata()) == 5]
        outlines = [it.get_path().vertices for it in drawn] or [it.get_xydata() for it in closed]
        if not outlines:
            return None
        found = []
        for outline in outlines:
            xs, ys = [float(it[0]) for it in outline], [float(it[1]) for it in outline]
            found.append((min(xs), max(xs), min(ys), max(ys)))
        rest = [it for it in lines if it not in closed or drawn]
        flat = [it for it in rest if len(it.get_xdata()) == 2]
        spots = [it for it in axes.get_lines() if it.get_linestyle() in ("None", "none", "", " ")]
        lies = False
        for lines_of in flat[:1]:
            # The first whisker leaves the box along the axis of the values.
            x, y = lines_of.get_xdata(), lines_of.get_ydata()
            lies = float(y[0]) == float(y[1]) and float(x[0]) != float(x[1])
        names = axes.yaxis if lies else axes.xaxis
        labels = {round(float(at), 6): it.get_text() for at, it in zip(names.get_ticklocs(), names.get_ticklabels())}
        elements = []
        for left, right, low, high in found:
            if lies:
                left, right, low, high = low, high, left, right
            middle, inner, outer, median, outliers = round((left + right) / 2, 6), [], [], None, []
            for line in flat:
                across, along = (line.get_ydata(), line.get_xdata()) if lies else (line.get_xdata(), line.get_ydata())
                across, along = [float(it) for it in across], [float(it) for it in along]
                if not left - 1e-9 <= sum(across) / 2 <= right + 1e-9:
                    continue
                if across[0] == across[1]:
                    outer += along
                elif low <= along[0] <= high and abs((across[1] - across[0]) - (right - left)) < 1e-6:
                    median = along[0]
            for spot in spots:
                across, along = (spot.get_ydata(), spot.get_xdata()) if lies else (spot.get_xdata(), spot.get_ydata())
                outliers += [plain(b) for a, b in zip(across, along) if left <= float(a) <= right]
            elements.append({
                "label": labels.get(middle) or f"{middle:g}",
                "min": min(outer, default=low),
                "first_quartile": low,
                "median": median,
                "third_quartile": high,
                "max": max(outer, default=high),
                "outliers": outliers,
            })
        return labelled(titled("box_and_whisker", axes, elements), axes)

    def chart_of(axes):
        from matplotlib.collections import PathCollection
        from matplotlib.container import BarContainer
        from matplotlib.patches import PathPatch, Wedge

        wedges = [it for it in axes.patches if isinstance(it, Wedge)]
        if wedges:
            return pie(axes, wedges)
        groups = [it for it in axes.containers if isinstance(it, BarContainer)]
        if groups:
            return bars(axes, groups)
        lines = axes.get_lines()
        short = [it for it in lines if len(it.get_xdata()) <= 2]
        closed = [it for it in lines if len(it.get_xdata()) == 5 and float_ends_meet(it)]
        is_boxes = any(isinstance(it, PathPatch) for it in axes.patches) or len(closed) * 5 <= len(short) and closed
        if is_boxes and len(short) >= 5:
            chart = boxes(axes)
            if chart:
                return chart
        # Lines across the whole picture carry no data.
        own = [it for it in lines if it.get_transform() == axes.transData]
        if own:
            return points("line", axes, [(label_of(it), it.get_xdata(orig=True), it.get_ydata(orig=True)) for it in own])
        clouds = [it for it in axes.collections if isinstance(it, PathCollection)]
        if clouds:
            return points("scatter", axes, [(label_of(it), it.get_offsets()[:, 0], it.get_offsets()[:, 1]) for it in clouds])
        return titled("unknown", axes, [])

    def float_ends_meet(line):
        x, y = line.get_xdata(), line.get_ydata()
        return plain(x[0]) == plain(x[-1]) and plain(y[0]) == plain(y[-1])

    def chart(figure):
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # What a colour bar has is no data of its own.
            all = [it for it in figure.axes if not hasattr(it, "_colorbar")]
            charts = [chart_of(it) for it in all]
        if len(charts) == 1:
            one = charts[0]
            return {**one, "title": one["title"] or (figure.get_suptitle() or None if hasattr(figure, "get_suptitle") else None)}
        title = figure.get_suptitle() if hasattr(figure, "get_suptitle") else None
        return {"type": "superchart", "title": title or None, "elements": charts}

    def formatter(kind, method, module, name, make):
        class Own(BaseFormatter):
            format_type = Unicode(kind)
            print_method = ObjectName(method)
            _return_type = (dict, str)

            def __call__(self, thing):
                found = getattr(sys.modules.get(module), name, None)
                if found is None or not isinstance(thing, found):
                    return super().__call__(thing)
                try:
                    return make(thing)
                except Exception:
                    return None

        formatters[kind] = Own(parent=shell.display_formatter)

    formatter("e2b/data", "_repr_e2b_data_", "pandas", "DataFrame", table)
    formatter("e2b/chart", "_repr_e2b_chart_", "matplotlib.figure", "Figure", chart)

    before = formatters["application/json"]

    class Json(type(before)):
        def __call__(self, thing):
            if type(thing) in (list, dict) and len(thing) <= VALUES:
                try:
                    return plain(thing)
                except Exception:
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
    _sponde_e2b()
except Exception:
    pass
finally:
    del _sponde_e2b
