// Package projector folds a shard's log into its state: the rows that decisions
// are made from and that people look at, kept in Pebble.
//
//	P1  The state equals the fold of a prefix of the shard's log. The fold is a
//	    function of that prefix alone: no clock, no random source, no map order,
//	    no I/O but its own rows, no logger, and it does not know who leads.
//	P2  Cursor, hash and rows are written in one batch, so what is on disk is
//	    always such a prefix; a crash loses at most the newest batches, and the
//	    log is folded again from there. The write-ahead log of Pebble is off.
//	P3  The fold takes the message after its cursor and nothing else. A gap, a
//	    frame of a newer version or a broken hash chain stops it, with the place.
//	P4  A frame whose term is not that of the last led before it changes nothing
//	    (the second fence). Neither does what is no frame at all.
//	P5  What is owed is state: every instance and trigger that calls for a
//	    decision is in a queue, in judge, in plan or due, and those are derived
//	    from the rows alone, when they change and when they are loaded.
//	P6  Rows are written once per batch, whatever happened to them in between,
//	    and how the log was cut into batches does not show in them.
//
// A State is owned by one goroutine. A leader applies the events it decides
// before they are committed (Apply) and tells the state when they are
// (Advance); in between nothing is written, and if the commit fails the memory
// is thrown away and loaded again. Everybody else folds whole messages (Fold).
// Views reads what has been written, from any goroutine.
package projector
