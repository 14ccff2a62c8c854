# With each figure of matplotlib comes what it was drawn from: the same as a vector graphic, its chart, and the data of its lines, bars
# and points. The session takes them out of the output (src/agent/run/charts.rs). Comes after figures.py.
def _sponde_plots(figures):
    import io

    from IPython import get_ipython
    from IPython.core.formatters import BaseFormatter
    from traitlets import ObjectName, Unicode

    KIND = "application/vnd.sponde.plot+json"
    # Points that are drawn as vectors, values that are kept, bytes of a graphic.
    POINTS, VALUES, BYTES = 20_000, 20_000, 1 << 20
    formatters = get_ipython().display_formatter.formatters
    if KIND in formatters:
        return

    def series(figure):
        found, left = [], VALUES
        for one in figures.series(figure):
            left -= len(one["x"])
            if left >= 0:
                found.append(one)
        return found

    def drawing(figure):
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
        made = [figures.quietly(make, figure) for make in (drawing, figures.chart, series)]
        (graphic, _), (chart, _), (found, _) = made
        problems = [problem for _, problem in made if problem]
        return {"svg": graphic, "chart": chart, "series": found or [], "problems": problems}

    class Plot(BaseFormatter):
        format_type = Unicode(KIND)
        print_method = ObjectName("_repr_sponde_plot_")
        _return_type = dict

    formatters[KIND] = Plot(parent=get_ipython().display_formatter)
    # matplotlib's backend takes away what is registered for figures themselves.
    formatters[KIND].for_type_by_name("matplotlib.figure", "FigureBase", described)


try:
    _sponde_plots(_sponde_figures())
finally:
    del _sponde_plots, _sponde_figures
