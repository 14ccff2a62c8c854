local({
  quoted <- function(text) {
    text <- gsub("\\", "\\\\", paste(text, collapse = " "), fixed = TRUE)
    text <- gsub("\"", "\\\"", text, fixed = TRUE)
    paste0("\"", gsub("[[:cntrl:]]", " ", text), "\"")
  }
  for (name in ls(globalenv())) {
    value <- get(name, envir = globalenv())
    if (is.function(value)) next
    shape <- if (is.null(dim(value))) length(value) else paste(dim(value), collapse = " x ")
    head <- if (is.data.frame(value)) paste(names(value), collapse = ", ")
            else tryCatch(substr(paste(utils::capture.output(utils::str(value, give.head = FALSE)), collapse = " "), 1, 300), error = function(e) "")
    cat(sprintf("\036{\"name\":%s,\"type\":%s,\"shape\":%s,\"head\":%s}\n\037",
                quoted(name), quoted(class(value)[1]), quoted(shape), quoted(head)))
  }
})
