//! The admission gate per acquisition, for a number of active threads that is only known at run time.

use holdup_locks::technique::{Gated, GatedState};
use lock_api::RawMutex as _;

/// Protects nothing: what is left of a gated lock is the gate, which stands in front of any lock under test.
#[derive(Debug)]
pub struct Anybody;

// SAFETY: it gives nobody access to anything: it is private, no data is put behind it, and `Gated` itself relies on its
// own places only ("the places only delay").
unsafe impl lock_api::RawMutex for Anybody {
    const INIT: Self = Anybody;
    type Guard = ();

    fn lock(&self) {}

    fn try_lock(&self) -> Option<()> {
        Some(())
    }

    unsafe fn unlock(&self, (): ()) {}

    fn is_locked(&self) -> bool {
        false
    }
}

/// One variant per number of active threads, which `Gated` has in its type.
macro_rules! sizes {
    ($($variant:ident $active:literal)*) => {
        /// `Gated`'s gate: at most so many threads contend, and each waits a bounded number of turns.
        pub enum PerAcquisition {
            $(#[doc = concat!("Admits ", $active, ".")] $variant(Gated<Anybody, $active>),)*
        }

        /// What an admitted thread gives back.
        pub struct Place(GatedState<()>);

        impl PerAcquisition {
            /// A gate for so many; `None` beyond [`PerAcquisition::MOST`].
            pub fn new(active: u32) -> Option<PerAcquisition> {
                match active {
                    $($active => Some(PerAcquisition::$variant(Gated::INIT)),)*
                    _ => None,
                }
            }

            /// Waits to be admitted.
            #[inline]
            pub fn enter(&self) -> Place {
                match self {
                    $(PerAcquisition::$variant(gate) => Place(gate.lock()),)*
                }
            }

            /// Gives the place back.
            #[inline]
            pub fn leave(&self, place: Place) {
                // SAFETY: a place comes from this gate's `enter` and is used once; a cell has one gate.
                unsafe {
                    match self {
                        $(PerAcquisition::$variant(gate) => gate.unlock(place.0),)*
                    }
                }
            }
        }
    };
}

sizes! { One 1 Two 2 Three 3 Four 4 Five 5 Six 6 Seven 7 Eight 8 Nine 9 Ten 10 Eleven 11 Twelve 12 }

impl PerAcquisition {
    /// The largest number it takes.
    pub const MOST: u32 = 12;
}
