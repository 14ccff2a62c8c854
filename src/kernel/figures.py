# What figures of matplotlib, and so of seaborn, were drawn from. One walk over the axes finds the marks of each; a chart in E2B's
# schema and the series of a table are two views of them. `src/kernel/figures.rs` says who gets it.
def _sponde_figures():
    import math
    import re

    # Points of a figure's chart.
    POINTS = 100_000

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

    # Axes: their scales, and what stands for a number on them.
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

    def shown(axis, values):
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
            known = {at: name for name, at in axis.units._mapping.items()}
            return [known.get(it, str(plain(it))) if isinstance(it, (int, float)) else str(plain(it)) for it in list(values)]
        return [plain(float(it)) if not isinstance(it, str) else it for it in numpy.asarray(values).tolist()]

    def ticks(axis):
        from matplotlib.dates import num2date

        found = [float(it) for it in axis.get_ticklocs()]
        labels = [it.get_text() for it in axis.get_ticklabels()]
        kind = scale(axis)
        if kind == "datetime":
            return [num2date(it).isoformat() for it in found], labels, kind
        return found, labels, kind

    def names(axis):
        """What places are called, by their numbers."""
        if scale(axis) == "categorical":
            return {float(at): name for name, at in axis.units._mapping.items()}
        if type(axis.get_major_locator()).__name__ == "FixedLocator":
            return {float(at): it.get_text() for at, it in zip(axis.get_ticklocs(), axis.get_ticklabels())}
        return {}

    def label_of(thing):
        return str(thing.get_label())

    def legend_of(axes):
        """What the legend calls a colour: seaborn's marks have no labels."""
        from matplotlib.colors import to_hex

        legend = axes.get_legend()
        found = {}
        for handle, text in zip(legend.legend_handles, legend.get_texts()) if legend else ():
            for get in ("get_facecolor", "get_color"):
                try:
                    colour = getattr(handle, get)()
                    colour = colour[0] if get == "get_facecolor" and getattr(colour, "ndim", 1) == 2 else colour
                    found.setdefault(to_hex(colour), text.get_text())
                    break
                except (AttributeError, IndexError, ValueError):
                    continue
        return found

    def named(own, colour, legend):
        from matplotlib.colors import to_hex

        return legend.get(to_hex(colour), own) if own.startswith("_") else own

    # Marks: all of one kind and name in some axes.
    def marks(axes):
        from matplotlib.collections import PathCollection
        from matplotlib.container import BarContainer
        from matplotlib.patches import Wedge

        legend = legend_of(axes)
        wedges = [it for it in axes.patches if isinstance(it, Wedge)]
        if wedges:
            yield {"kind": "pie", "name": "", "elements": [
                {"label": label_of(it), "angle": round(abs(float(it.theta2) - float(it.theta1)), 4), "radius": float(it.r)} for it in wedges
            ]}
        for group in axes.containers:
            if isinstance(group, BarContainer):
                yield bars(axes, group, legend)
        found = boxes(axes) if has_boxes(axes) else None
        if found:
            yield {"kind": "box_and_whisker", "name": "", "elements": found}
            return
        for line in axes.get_lines():
            # Lines across the whole picture carry no data, and those for a legend have none.
            if line.get_transform() == axes.transData and len(line.get_xdata()):
                x, y = line.get_xdata(orig=True), line.get_ydata(orig=True)
                yield points("line", axes, named(label_of(line), line.get_color(), legend), x, y)
        for cloud in axes.collections:
            if isinstance(cloud, PathCollection):
                yield from clouds(axes, cloud, legend)

    def points(kind, axes, name, x, y):
        return {"kind": kind, "name": name, "x": shown(axes.xaxis, x), "y": shown(axes.yaxis, y)}

    def clouds(axes, cloud, legend):
        """A cloud, or those of its colours that the legend names."""
        from matplotlib.colors import to_hex

        offsets, colours = cloud.get_offsets(), cloud.get_facecolors()
        groups = {}
        if legend and len(colours) == len(offsets):
            for at, colour in enumerate(colours):
                groups.setdefault(legend.get(to_hex(colour)), []).append(at)
        if not groups or None in groups:
            groups = {label_of(cloud): slice(None)}
        for name, which in groups.items():
            yield points("scatter", axes, name, offsets[which, 0], offsets[which, 1])

    def bars(axes, group, legend):
        lies = getattr(group, "orientation", "vertical") == "horizontal"
        known = names(axes.yaxis if lies else axes.xaxis)
        elements = []
        own = named(label_of(group), group.patches[0].get_facecolor(), legend) if len(group.patches) else label_of(group)
        for one in group.patches:
            middle = float(one.get_y() + one.get_height() / 2 if lies else one.get_x() + one.get_width() / 2)
            # Bars beside each other share a place.
            nearest = min(known, key=lambda it: abs(it - middle), default=None)
            name = known[nearest] if nearest is not None and abs(nearest - middle) <= 0.5 else None
            elements.append({"label": str(name or f"{middle:g}"), "group": own, "value": plain(one.get_width() if lies else one.get_height())})
        return {"kind": "bar", "name": own, "elements": elements}

    def has_boxes(axes):
        from matplotlib.patches import PathPatch

        lines = axes.get_lines()
        short = [it for it in lines if len(it.get_xdata()) <= 2]
        closed = [it for it in lines if len(it.get_xdata()) == 5 and is_closed(it)]
        is_drawn = any(isinstance(it, PathPatch) for it in axes.patches) or len(closed) * 5 <= len(short) and closed
        return is_drawn and len(short) >= 5

    def is_closed(line):
        x, y = line.get_xdata(), line.get_ydata()
        return plain(x[0]) == plain(x[-1]) and plain(y[0]) == plain(y[-1])

    def boxes(axes):
        """The five lines and the outliers of each box, as `Axes.bxp` draws them."""
        from matplotlib.patches import PathPatch

        lines = [it for it in axes.get_lines() if len(it.get_xdata())]
        drawn = [it for it in axes.patches if isinstance(it, PathPatch)]
        closed = [it for it in lines if len(it.get_xdata()) == 5]
        outlines = [it.get_path().vertices for it in drawn] or [it.get_xydata() for it in closed]
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
        axis = axes.yaxis if lies else axes.xaxis
        labels = {round(float(at), 6): it.get_text() for at, it in zip(axis.get_ticklocs(), axis.get_ticklabels())}
        elements = []
        for left, right, low, high in found:
            if lies:
                left, right, low, high = low, high, left, right
            middle, outer, median, outliers = round((left + right) / 2, 6), [], None, []
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
        return elements

    # A chart in E2B's schema.
    def unit(label):
        found = re.search(r"\((.*?)\)", label or "")
        return found.group(1) if found else None

    def chart_of(axes):
        """It is of one kind; what else is drawn, such as the error bars of bars, is left out."""
        found = list(marks(axes))
        kinds = [it["kind"] for it in found]
        kind = next((it for it in ("pie", "bar", "box_and_whisker", "line", "scatter") if it in kinds), "unknown")
        chart = {"type": kind, "title": axes.get_title() or None, "elements": []}
        x, y = axes.get_xlabel() or None, axes.get_ylabel() or None
        if kind not in ("pie", "unknown"):
            chart.update(x_label=x, y_label=y, x_unit=unit(x), y_unit=unit(y))
        left = POINTS
        for mark in found:
            if mark["kind"] != kind:
                continue
            if "elements" in mark:
                chart["elements"] += mark["elements"]
                continue
            left -= len(mark["x"])
            if left >= 0:
                chart["elements"].append({"label": mark["name"], "points": [list(it) for it in zip(mark["x"], mark["y"])]})
        if kind in ("line", "scatter"):
            for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
                chart[f"{name}_ticks"], chart[f"{name}_tick_labels"], chart[f"{name}_scale"] = ticks(axis)
        return chart

    def axes_of(figure):
        # What a colour bar has is no data of its own.
        return [it for it in figure.axes if not hasattr(it, "_colorbar")]

    def chart(figure):
        charts = [chart_of(it) for it in axes_of(figure)]
        title = (figure.get_suptitle() if hasattr(figure, "get_suptitle") else None) or None
        if len(charts) == 1:
            return {**charts[0], "title": charts[0]["title"] or title}
        return {"type": "superchart", "title": title, "elements": charts}

    # Series for a table: values of x and y, by axes and mark.
    def series(figure):
        for at, axes in enumerate(axes_of(figure), 1):
            shared = {"axes": at, "title": axes.get_title(), "x_label": axes.get_xlabel(), "y_label": axes.get_ylabel()}
            for mark in marks(axes):
                name = "" if mark["name"].startswith("_") else mark["name"]
                for more, x, y in columns(mark):
                    yield {**shared, "kind": mark["kind"], "name": more or name, "x": x, "y": y}

    def columns(mark):
        if "x" in mark:
            yield None, mark["x"], mark["y"]
            return
        elements = mark["elements"]
        labels = [it["label"] for it in elements]
        if mark["kind"] == "box_and_whisker":
            for name in ("min", "first_quartile", "median", "third_quartile", "max"):
                yield name, labels, [it[name] for it in elements]
            return
        yield None, labels, [it["angle" if mark["kind"] == "pie" else "value"] for it in elements]

    def quietly(make, figure):
        """What `make` finds, and what went wrong: a library that changed must not go unnoticed."""
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return make(figure), None
            except Exception as error:
                return None, f"{make.__name__}: {type(error).__name__}: {error}"

    from types import SimpleNamespace

    return SimpleNamespace(plain=plain, chart=chart, series=series, quietly=quietly)


