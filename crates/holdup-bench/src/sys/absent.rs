//! What only one system has: on Linux hardware counters and the C library's locks, on Windows slim reader-writer locks.
//! Elsewhere asking for them says so.

/// No hardware counters.
#[cfg(not(target_os = "linux"))]
pub mod counters {
    use crate::sample::Counters;

    /// Cannot be opened here.
    #[derive(Debug)]
    pub struct Group;

    impl Group {
        /// Cannot be opened here.
        ///
        /// # Errors
        /// Always.
        pub fn open(_: &[u32], _: usize) -> std::io::Result<Group> {
            Err(std::io::Error::from(std::io::ErrorKind::Unsupported))
        }

        /// Nothing.
        pub fn read(&mut self) -> Option<Counters> {
            None
        }
    }
}

/// The C library's locks, which this system has not.
#[cfg(not(target_os = "linux"))]
pub mod pthread {
    use crate::lock::BenchLock;
    use crate::spec::Spec;

    /// A lock that cannot be had; one type per name, so that the registry is the same everywhere.
    #[derive(Debug)]
    pub struct Missing<const KIND: u8>;

    impl Normal {
        /// Excludes nobody; no program that needs it is started here.
        pub const fn initial() -> Normal {
            Missing
        }
    }

    /// The default mutex.
    pub type Normal = Missing<0>;
    /// Spins before it sleeps.
    pub type Adaptive = Missing<1>;
    /// May be taken again by its owner.
    pub type Recursive = Missing<2>;
    /// Checks who takes and releases it.
    pub type ErrorCheck = Missing<3>;
    /// Lends the waiter's priority to the owner.
    pub type PriorityInherit = Missing<4>;
    /// Serves several processes.
    pub type Shared = Missing<5>;
    /// Readers pass writers that wait.
    pub type PreferReader = Missing<6>;
    /// Asks for writers first.
    pub type PreferWriter = Missing<7>;
    /// Writers that wait keep new readers out.
    pub type PreferWriterNonRecursive = Missing<8>;

    impl<const KIND: u8> BenchLock for Missing<KIND> {
        fn create(_: &Spec) -> Result<Self, String> {
            Err("the C library's locks are not measured on this system".to_owned())
        }

        fn with<R>(&self, section: impl FnOnce() -> R) -> R {
            section()
        }
    }
}

/// Slim reader-writer locks, which this system has not.
#[cfg(not(windows))]
pub mod srwlock {
    use crate::lock::BenchLock;
    use crate::spec::Spec;

    /// A lock that cannot be had.
    #[derive(Debug)]
    pub struct Shared;

    impl BenchLock for Shared {
        fn create(_: &Spec) -> Result<Self, String> {
            Err("only Windows has SRWLOCK".to_owned())
        }

        fn with<R>(&self, section: impl FnOnce() -> R) -> R {
            section()
        }
    }
}
