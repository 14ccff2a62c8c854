//! How glibc's allocator behaves in a process that runs for weeks with many threads.

/// Memory that is freed goes back to the system, instead of waiting in an arena for each thread. Measured with 100 sessions of 10
/// clients each, set by environment variables (the bound at 128 KiB): 4.7 MB a session without, 2.5 with.
pub(super) fn for_many_threads() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        /// Arenas: threads share them.
        const ARENAS: libc::c_int = 2;
        /// What is larger is a mapping of its own, and stays one: by default the bound rises to 32 MB.
        const LARGE: libc::c_int = 256 << 10;
        for (parameter, value) in [(libc::M_ARENA_MAX, ARENAS), (libc::M_MMAP_THRESHOLD, LARGE)] {
            #[expect(unsafe_code, reason = "glibc has no other way to say it")]
            // SAFETY: sets a number, before there are other threads; a value that it does not take is left as it was.
            let taken = unsafe { libc::mallopt(parameter, value) };
            if taken == 0 {
                tracing::debug!(parameter, "the allocator did not take a parameter");
            }
        }
    }
}
