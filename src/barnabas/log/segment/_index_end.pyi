from barnabas.log.segment.index_end import IndexEnd as IndexEnd
