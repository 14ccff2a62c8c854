# With each figure of matplotlib comes what it was drawn from: the same as a vector graphic, and the data of its lines, bars and
# points. The session takes both out of the output and keeps them as files beside the picture (src/agent/run/charts.rs).
def _sponde_plots():
    import io
    import warnings

    from IPython import get_ipython
    from IPython.core.formatters import BaseFormatter
    from traitlets import ObjectName, Unicode

    KIND = "application/vnd.sponde.plot+json"
    # Points that are drawn as vectors, values that are kept, bytes of a graphic.
    POINTS, VALUES, BYTES = 20_000, 20_000, 1 << 20
    formatters = get_ipython().display_formatter.formatters
    if KIND in formatters:
        return

    def plain(value):
        value = value.item() if hasattr(value, "item") else value
        if value is None or value != value:
            return None
        return value if isinstance(value, (bool, int, float, str)) else str(value)

    def names(axis, count):
        """What categories are called, by their places."""
        mapping = getattr(getattr(axis, "units", None), "_mapping", None)
        if mapping:
            return {place: str(name) for name, place in mapping.items()}
        if type(axis.get_major_locator()).__name__ != "FixedLocator":
            return {}
        labels = [it.get_text() for it in axis.get_ticklabels()]
        known = {round(place): label for place, label in zip(axis.get_ticklocs(), labels) if label}
        return known if len(known) == count else {}

    def series(at, axes):
        from matplotlib.collections import PathCollection
        from matplotlib.container import BarContainer

        shared = {"axes": at, "title": axes.get_title(), "x_label": axes.get_xlabel(), "y_label": axes.get_ylabel()}
        label = lambda it: "" if str(it.get_label()).startswith("_") else str(it.get_label())
        for line in axes.get_lines():
            yield {**shared, "kind": "line", "name": label(line), "x": list(line.get_xdata(orig=True)), "y": list(line.get_ydata(orig=True))}
        for bars in axes.containers:
            if not isinstance(bars, BarContainer):
                continue
            lies = getattr(bars, "orientation", "vertical") == "horizontal"
            known = names(axes.yaxis if lies else axes.xaxis, len(bars.patches))
            places = [(it.get_y() + it.get_height() / 2 if lies else it.get_x() + it.get_width() / 2) for it in bars.patches]
            lengths = [it.get_width() if lies else it.get_height() for it in bars.patches]
            # To half a place: bars beside each other share it.
            places = [known.get(round(it), it) for it in places] if known else places
            yield {**shared, "kind": "bar", "name": label(bars), "x": places, "y": lengths}
        for points in axes.collections:
            if isinstance(points, PathCollection):
                offsets = points.get_offsets()
                known = names(axes.xaxis, -1)
                yield {**shared, "kind": "points", "name": label(points), "x": [known.get(it, it) for it in offsets[:, 0].tolist()], "y": offsets[:, 1].tolist()}

    def drawn(figure):
        counted = sum(len(line.get_xdata()) for axes in figure.axes for line in axes.get_lines())
        counted += sum(len(it.get_offsets()) for axes in figure.axes for it in axes.collections)
        counted += sum(len(axes.patches) for axes in figure.axes)
        if counted > POINTS:
            return None
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
        return buffer.getvalue() if buffer.tell() <= BYTES else None

    def described(figure):
        # Parts of a figure do not count.
        if type(figure).__name__ != "Figure" or not figure.axes:
            return None
        found, left, more = [], VALUES, 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                for at, axes in enumerate(figure.axes, 1):
                    for one in series(at, axes):
                        left -= len(one["x"])
                        if left < 0:
                            more += 1
                            continue
                        found.append({**one, "x": [plain(it) for it in one["x"]], "y": [plain(it) for it in one["y"]]})
            except Exception:
                pass
            try:
                graphic = drawn(figure)
            except Exception:
                graphic = None
        return {"svg": graphic, "series": found, "more": more}

    class Plot(BaseFormatter):
        format_type = Unicode(KIND)
        print_method = ObjectName("_repr_sponde_plot_")
        _return_type = dict

    formatters[KIND] = Plot(parent=get_ipython().display_formatter)
    # matplotlib's backend takes away what is registered for figures themselves.
    formatters[KIND].for_type_by_name("matplotlib.figure", "FigureBase", described)


try:
    _sponde_plots()
except Exception:
    pass
finally:
    del _sponde_plots
