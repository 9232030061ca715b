// Package replay reads a log again: to show what happened, to say why, to bring
// back the state at any position, and to prove that log and views agree.
//
//	R1  It reads only: nothing here appends, and views are its own copies.
//	R2  What it says is from the log alone. Views are consulted for where to look,
//	    and compared, never believed.
//	R3  Everything is bounded: by the positions it was asked about, or by the log.
package replay
