//! Placeholder of the loader.
/// Why a database cannot be read.
#[derive(Debug)]
pub struct LoadError;
/// Reads texts.
pub fn parse() {}
/// Reads a directory.
pub fn load() {}
