(lambda sys, os: [
    os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)
    for name, value in (sys.__dict__.pop("_sponde_env", None) or {}).items()
])(__import__("sys"), __import__("os"))
