from barnabas.log.segment.active_segment import LogEnd as LogEnd
from barnabas.log.segment.active_segment import SegmentEnd as SegmentEnd
