from barnabas.log.ends import LogEnd as LogEnd
from barnabas.log.ends import SegmentEnd as SegmentEnd
