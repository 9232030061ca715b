package supervise

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// run starts a script that writes numbers of processes into the folder $DIR.
func run(t *testing.T, script string) (p Process, dir string, out *bytes.Buffer) {
	t.Helper()
	dir, out = t.TempDir(), new(bytes.Buffer)
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Env = []string{"DIR=" + dir, "PATH=/usr/bin:/bin"}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = time.Second
	p, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	return p, dir, out
}

// pids waits until n files hold the numbers of living processes.
func pids(t *testing.T, dir string, n int) (all []int) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		files, _ := filepath.Glob(filepath.Join(dir, "*"))
		all = all[:0]
		for _, f := range files {
			b, _ := os.ReadFile(f)
			if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && alive(pid) {
				all = append(all, pid)
			}
		}
		if len(all) == n {
			return all
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d processes, want %d", len(all), n)
		}
	}
}

func alive(pid int) bool {
	_, dead, ok := parentOf(pid)
	return ok && !dead
}

func wantGone(t *testing.T, all []int) {
	t.Helper()
	for _, pid := range all {
		if alive(pid) {
			t.Errorf("process %d runs on", pid)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// everywhere starts processes that are hard to find: in the background, in a
// session of their own, without a parent, and deaf to SIGTERM.
const everywhere = `
note() { echo $2 > $DIR/$1; }
sleep 1000 & note background $!
setsid sh -c 'echo $$ > $DIR/session; exec sleep 1000' &
(setsid sh -c 'echo $$ > $DIR/orphan; exec sleep 1000' & )
nohup sh -c 'echo $$ > $DIR/nohup; exec sleep 1000' >/dev/null 2>&1 &
sh -c 'trap "" TERM; echo $$ > $DIR/deaf; while :; do sleep 1000; done' &
echo $$ > $DIR/self
`

func TestEndings(t *testing.T) {
	for script, want := range map[string]Ending{
		"exit 0": {0, "exit status 0"}, "exit 3": {3, "exit status 3"}, "exit 255": {255, "exit status 255"},
		"kill -9 $$": {-1, "signal: killed"}, "kill -TERM $$": {-1, "signal: terminated"},
		"sleep 1000 & exit 4": {4, "exit status 4"},
	} {
		p, _, _ := run(t, script)
		if have, err := p.Wait(); have != want || err != nil {
			t.Errorf("%s: %+v, %v, want %+v", script, have, err, want)
		}
	}
}

func TestWhatACommandLeavesBehindEndsWithIt(t *testing.T) {
	p, dir, _ := run(t, everywhere+"read line < $DIR/gate")
	if err := syscall.Mkfifo(filepath.Join(dir, "gate"), 0o600); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	var all []int
	for deadline := time.Now().Add(30 * time.Second); len(all) < 5 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		all = all[:0]
		for _, name := range []string{"background", "session", "orphan", "nohup", "deaf"} {
			b, _ := os.ReadFile(filepath.Join(dir, name))
			if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
				all = append(all, pid)
			}
		}
	}
	p.Kill()
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}
	wantGone(t, all)
}

func TestTerminateReachesAllAndKillTheRest(t *testing.T) {
	p, dir, _ := run(t, everywhere+"wait")
	all := pids(t, dir, 6)
	p.Terminate()
	left := pids(t, dir, 1) // the deaf one
	p.Kill()
	have, err := p.Wait()
	if err != nil || have.Text != "signal: terminated" {
		t.Errorf("%+v, %v", have, err)
	}
	wantGone(t, append(all, left...))
}

// TestTheDeathOfTheWorkerIsTheEnd: the pipe is all that a supervisor has of it.
func TestTheDeathOfTheWorkerIsTheEnd(t *testing.T) {
	p, dir, _ := run(t, everywhere+"wait")
	all := pids(t, dir, 6)
	_ = p.(*supervised).control.Close() // as the kernel does for a process that is killed
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}
	wantGone(t, all)
}

// TestACommandThatHurtsItsSupervisorEndsToo: by stopping or killing it.
func TestACommandThatHurtsItsSupervisorEndsToo(t *testing.T) {
	for _, s := range []string{"STOP", "KILL"} {
		t.Run(s, func(t *testing.T) {
			p, dir, _ := run(t, "(setsid sh -c 'echo $$ > $DIR/orphan; exec sleep 1000' & ); sleep 1000 & echo $! > $DIR/child; sleep 0.2; kill -"+s+" $PPID; wait")
			all := pids(t, dir, 2)
			time.Sleep(300 * time.Millisecond) // the supervisor is hurt
			p.Kill()
			if have, err := p.Wait(); have.Code != -1 || err != nil && !errors.Is(err, exec.ErrWaitDelay) {
				t.Errorf("%+v, %v", have, err)
			}
			wantGone(t, all)
		})
	}
}

// TestAForestThatGrowsIsCut: processes that start others while they are killed.
func TestAForestThatGrowsIsCut(t *testing.T) {
	p, dir, _ := run(t, `
grow() { while :; do ( sleep 0.01; exec sleep 1000 ) & sleep 0.02; done; }
for k in 1 2 3; do grow & done
echo $$ > $DIR/self; wait`)
	pids(t, dir, 1)
	time.Sleep(200 * time.Millisecond) // let it grow
	p.Kill()
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}
}

func TestStandardStreams(t *testing.T) {
	var out bytes.Buffer
	cmd := exec.Command("/bin/sh", "-c", "cat; echo err >&2; ls /proc/self/fd | wc -l")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("in\n"), &out, io.Writer(&out)
	p, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	if have, err := p.Wait(); have.Code != 0 || err != nil {
		t.Errorf("%+v, %v", have, err)
	}
	// 0, 1, 2 and the folder that ls reads: the supervisor's own are closed.
	if want := "in\nerr\n4\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestWhatDoesNotStart(t *testing.T) {
	for _, cmd := range []*exec.Cmd{exec.Command("/no/such/shell"), exec.Command("no-such-shell"), exec.Command("/etc/passwd")} {
		p, err := Start(cmd)
		if err == nil {
			_, err = p.Wait()
		}
		if err == nil || !strings.Contains(err.Error(), cmd.Args[len(cmd.Args)-1]) {
			t.Errorf("%v: %v", cmd.Args, err)
		}
	}
	cmd := exec.Command("/bin/sh", "-c", ":")
	cmd.Dir = "/no/such/folder"
	if _, err := Start(cmd); err == nil || !strings.Contains(err.Error(), "/no/such/folder") {
		t.Errorf("in a folder that is not there: %v", err)
	}
}

func BenchmarkSupervised(b *testing.B) {
	for b.Loop() {
		p, err := Start(exec.Command("/bin/true"))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := p.Wait(); err != nil {
			b.Fatal(err)
		}
	}
}
