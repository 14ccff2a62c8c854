local({
  kept <- getOption("sponde.env")
  for (name in names(kept)) {
    if (is.na(kept[[name]])) Sys.unsetenv(name)
    else do.call(Sys.setenv, stats::setNames(list(kept[[name]]), name))
  }
  options(sponde.env = NULL)
})
