//! [`tables!`] makes from the list of tables, in [`super`], whatever would otherwise name each of
//! them once more: the types of the database and of its files, how files are merged and sorted, what
//! the tally counts, and what is checked of every row.

use super::SourceId;

/// The sources of a fact, and whether it is assumed, at least in part.
pub(super) type Origin<'a> = (&'a [SourceId], bool);

/// A row of a table.
pub(super) trait Row {
    /// The table, as YAML names it.
    const TABLE: &'static str;
    /// The key by which a row is found in the files; [`Self::name`] is its value.
    const KEY: &'static str;
    /// Whether no two rows have the same name.
    const UNIQUE: bool;

    fn name(&self) -> String;

    /// None if only facts inside of the row have sources.
    fn origin(&self) -> Option<Origin<'_>>;
}

/// A table: its name, the type of a row, and the name of a row in the expressions that follow.
///
/// - `unique` or `key`: what names a row, as for [`Row`]
/// - `sources`: those of a row, and the field that says what is assumed
/// - `sort`: the order, independent of the file that a row is in; queries rely on it
/// - `count`: the title of a kind in the tally; its facts are the rows, or, after `in`, the sources
///   of facts inside of them
macro_rules! tables {
    ($($(#[$doc:meta])* $table:ident: $Row:ident, $row:ident {
        $rule:ident $key:literal = $name:expr;
        $(sources $sources:expr $(, $assumed:expr)?;)?
        $(sort $order:expr;)?
        $(count $kind:literal $(in $inner:expr)?;)*
    })+) => {
        /// The whole database.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(bound(deserialize = "'de: 'static"))]
        pub struct Database {
            /// The day of the latest change, `2026.11.20`.
            pub version: String,
            /// The day after which `gpusetup db update` refuses it, `2027-03-01`: a signature never
            /// expires. Only a packed database has one.
            pub expires: Option<String>,
            /// SHA-256, in lower-case hexadecimal, over all files in the order of their names.
            pub sha256: String,
            $($(#[$doc])* pub $table: Table<$Row>,)+
            /// All of it arranged for searches.
            #[serde(skip)]
            index: index::Indexed,
        }

        /// The content of a file: any of these lists, each of which may be spread over several
        /// files.
        #[derive(Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        struct File {
            version: Option<String>,
            expires: Option<String>,
            $($table: Vec<$Row>,)+
        }

        impl File {
            fn extend(&mut self, other: Self) {
                self.version = self.version.take().or(other.version);
                self.expires = self.expires.take().or(other.expires);
                $(self.$table.extend(other.$table);)+
            }

            /// The sorted tables of all files.
            fn into_database(mut self, sha256: String) -> Database {
                $($(self.$table.sort_by(|a, b| {
                    let $row = a;
                    let first = $order;
                    let $row = b;
                    first.cmp(&$order)
                });)?)+
                Database {
                    version: self.version.unwrap_or_default(),
                    expires: self.expires,
                    sha256,
                    $($table: self.$table.into(),)+
                    index: index::Indexed::default(),
                }
            }
        }

        impl Database {
            /// Counts each kind of fact.
            fn kinds(&self) -> Vec<tally::KindTally> {
                vec![$($(self.kind($kind, tables!(@origins self.$table, $row $(, $inner)?)),)*)+]
            }

            /// Checks what is the same for all tables.
            fn check_rows(&self, checker: &mut check::Checker) {
                $(checker.rows(&self.$table);)+
            }
        }

        $(impl tables::Row for $Row {
            const TABLE: &'static str = stringify!($table);
            const KEY: &'static str = $key;
            const UNIQUE: bool = tables!(@is_unique $rule);

            fn name(&self) -> String {
                let $row = self;
                $name.to_string()
            }

            fn origin(&self) -> Option<tables::Origin<'_>> {
                let _row = self;
                tables!(@origin _row, $row $(, $sources $(, $assumed)?)?)
            }
        })+
    };
    (@is_unique unique) => { true };
    (@is_unique key) => { false };
    (@origin $self:ident, $row:ident) => { None };
    (@origin $self:ident, $row:ident, $sources:expr) => {{
        let $row = $self;
        Some((&$sources, false))
    }};
    (@origin $self:ident, $row:ident, $sources:expr, $assumed:expr) => {{
        let $row = $self;
        Some((&$sources, $assumed.is_some()))
    }};
    (@origins $rows:expr, $row:ident) => { $rows.iter().filter_map(tables::Row::origin) };
    (@origins $rows:expr, $row:ident, $inner:expr) => {
        $rows.iter().flat_map(|$row| $inner).map(|sources| (sources.as_slice(), false))
    };
}

pub(super) use tables;
