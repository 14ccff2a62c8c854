(lambda sys, os, new, keeps: (
    setattr(sys, "_sponde_env", {name: os.environ.get(name) for name in new}) if keeps else None,
    os.environ.update(new),
))(__import__("sys"), __import__("os"), VARIABLES, KEEPS == 1)
