"""The safeguards of records; a test can switch each off, to prove that the checkers notice."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Safeguards:
    """All are in force; without one, a cluster may lose or mix up records."""

    epoch_truncation: bool = True  # else followers truncate to their high watermark
    isr_version_check: bool = True  # else a leader overwrites an ISR that it has not seen
    controller_epoch_fence: bool = True  # else brokers obey a controller of the past
    flush_before_checkpoint: bool = True  # else recovery points may lie beyond what was flushed
    min_insync_check: bool = True  # else acks=all is promised by however few are in sync
    sequence_check: bool = True  # else a producer's retry may be written twice
    acl_invalidation: bool = True  # else decisions outlive the ACLs that they were made by
    producer_epoch_fence: bool = True  # else a producer of a past epoch is obeyed
    verification_guard: bool = True  # else a batch may begin a transaction that has ended
    coordinator_epoch_fence: bool = True  # else markers of past coordinators are written
    replicate_before_answer: bool = True  # else a coordinator answers what it alone knows
    last_stable_offset_bound: bool = True  # else read_committed returns open transactions
    replicate_markers: bool = True  # else a transaction is complete though its markers may be lost
    flush_before_answer: bool = True  # else coordinators act on what flush.messages does not flush
    pending_offsets: bool = True  # else offsets are read that a transaction may change


IN_FORCE: Final = Safeguards()
