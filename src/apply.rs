//! Carrying a plan out, taking it up again, taking it back. So far: the journal, which all of these stand on.

pub mod journal;
