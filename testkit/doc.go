// Package testkit tests AX: it is imported by tests only.
//
//   - Sim is AX in memory with a clock that only the test moves: the real
//     deciders, fold, wheel and loop over a log in memory, and workers that do
//     what the test says (sim.go, sim_worker.go).
//   - Generator makes random histories for the fold, Reference folds them slowly
//     and plainly, and the tests hold the fold to both (generator.go,
//     reference.go).
//   - Check reads a finished log and finds everything that AX promises never
//     happens (check.go).
//   - Process runs the real binary and kills it (process.go).
package testkit
