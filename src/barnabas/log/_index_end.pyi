from barnabas.log.index_end import IndexEnd as IndexEnd
