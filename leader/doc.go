// Package leader makes one process at a time the writer of a shard's log, and
// everybody else its reader.
//
//	L1  Every append carries the fence (the sequence of the leader's own led) and
//	    the cursor; the log refuses it under a newer led or behind another
//	    message. One frame is in flight at a time.
//	L2  After an append whose outcome is not known the term is over: what was in
//	    doubt is either in the log before the next led, and folded, or can never
//	    enter it. Nothing is sent twice.
//	L3  A leader decides nothing before it has folded the log up to its own led,
//	    and nothing after its connection ended, the log's message at its cursor
//	    is not the one it folded, or the lease is lost.
//	L4  An answer leaves, and a message to a worker, when what it rests on is in
//	    the log: at the acknowledgement where acknowledged means kept for as long
//	    as the term lives, else when the leader's own reader has given it back.
//	L5  What is owed is in the folded state. Everything else in memory (requests,
//	    alarms, the wheel) only says where to look first, and may be lost.
//	L6  A decision that cannot be made is parked alone: an incident is recorded
//	    and its instance becomes a dead letter. The shard goes on.
//
// The lease elects (lease.go), the log fences (lead.go), the loop decides (loop.go,
// term_loop.go), the appender writes (term_append.go). Shard ties them together and
// runs for as long as the process does.
//
// The inbox is read by an ephemeral consumer from the folded position on: a durable
// one gives what an ended leader had not acknowledged to the next one only after
// AckWait.
package leader
