local({
  set <- c(VARIABLES)
  if (KEEPS == 1) options(sponde.env = Sys.getenv(names(set), unset = NA, names = TRUE))
  do.call(Sys.setenv, as.list(set))
})
