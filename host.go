package ax

import (
	"bufio"
	"os"
	"runtime"
	"strings"
)

// bootID names the boot of this machine, or is empty where the system does not
// tell: then triggers of the machine's boot never fire.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// ZoneVersion is the version of the time zone data that calendars use: the
// system's where there is one, as Go prefers it, else the one in the binary.
func ZoneVersion() string {
	for _, dir := range []string{"/usr/share/zoneinfo/", "/usr/share/lib/zoneinfo/", "/usr/lib/locale/TZ/"} {
		if b, err := os.ReadFile(dir + "+VERSION"); err == nil {
			return "system " + strings.TrimSpace(string(b))
		}
		f, err := os.Open(dir + "tzdata.zi")
		if err != nil {
			continue
		}
		line, _ := bufio.NewReader(f).ReadString('\n')
		_ = f.Close()
		if v, ok := strings.CutPrefix(line, "# version "); ok {
			return "system " + strings.TrimSpace(v)
		}
	}
	return "in " + runtime.Version()
}
