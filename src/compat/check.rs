//! Placeholder of the check.
/// A wrong fact.
#[derive(Debug)]
pub struct Problem;
