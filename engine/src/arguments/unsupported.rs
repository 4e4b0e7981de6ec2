//! The parts that only MongoDB has: commands and options that are rejected by name, each with the reason.
//!
//! Commands reject by these tables, and `docs/compatibility.md` is printed from them.

/// An option of a command that only MongoDB supports. It is rejected with code 238, `NotImplemented`.
///
/// ```
/// let finds = cairndb::UNSUPPORTED_OPTIONS.iter().find(|table| table.places.contains(&"find"));
/// let option = finds.and_then(|table| table.options.first()).expect("`find` has some");
/// assert_eq!((option.name, option.reason), ("oplogReplay", "no replication"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnsupportedOption {
    /// The field's name.
    pub name: &'static str,
    /// The reason.
    pub reason: &'static str,
}

/// Options that the same commands reject.
///
/// ```
/// let of_all = cairndb::UNSUPPORTED_OPTIONS.iter().find(|table| table.places.is_empty());
/// let mut names = of_all.into_iter().flat_map(|table| table.options).map(|option| option.name);
/// assert!(names.any(|name| name == "startTransaction"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnsupportedOptions {
    /// The commands, or the documents within a command, by their names in messages: `find`, `createIndexes.indexes`.
    /// Empty for options of all commands and of the statements of writes.
    pub places: &'static [&'static str],
    /// The options, ascending by name.
    pub options: &'static [UnsupportedOption],
}

/// Commands that only MongoDB supports. [`Database::run_command`](crate::Database::run_command) rejects them with code 238,
/// `NotImplemented`.
///
/// ```
/// let table = cairndb::UNSUPPORTED_COMMANDS.iter().find(|table| table.names.contains(&"buildInfo"));
/// assert!(table.is_some_and(|table| table.is_of_server));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnsupportedCommands {
    /// The reason.
    pub reason: &'static str,
    /// Whether a server answers them, which has connections, users and cursors.
    pub is_of_server: bool,
    /// The names, ascending.
    pub names: &'static [&'static str],
}

/// The options of MongoDB's commands that are rejected by name. The values `false` and null ask for nothing, and are allowed.
///
/// ```
/// let tables = cairndb::UNSUPPORTED_OPTIONS.iter().filter(|table| table.places.contains(&"find"));
/// let mut names = tables.flat_map(|table| table.options).map(|option| option.name);
/// assert!(names.any(|name| name == "term"));
/// ```
pub const UNSUPPORTED_OPTIONS: &[UnsupportedOptions] = &[
    UnsupportedOptions { places: &[], options: TRANSACTIONS },
    UnsupportedOptions {
        places: &["find"],
        options: &[option("oplogReplay", REPLICATION), option("term", REPLICATION)],
    },
    UnsupportedOptions {
        places: &["delete", "findAndModify", "findandmodify", "insert", "update"],
        options: &[option("encryptionInformation", ENCRYPTION)],
    },
    UnsupportedOptions {
        places: &["updates"],
        options: &[option("sampleId", SHARDING), option("upsertSupplied", "internal to MongoDB")],
    },
    UnsupportedOptions { places: &["deletes"], options: &[option("sampleId", SHARDING)] },
    UnsupportedOptions {
        places: &["bulkWrite.ops"],
        options: &[option("sampleId", SHARDING), option("upsertSupplied", "internal to MongoDB")],
    },
    UnsupportedOptions {
        places: &["bulkWrite.nsInfo"],
        options: &[option("encryptionInformation", ENCRYPTION)],
    },
    UnsupportedOptions {
        places: &["create"],
        options: &[
            option("encryptedFields", ENCRYPTION),
            option("expireAfterSeconds", EXPIRY),
            option("indexOptionDefaults", STORAGE_ENGINE),
            option("storageEngine", STORAGE_ENGINE),
            option("timeseries", TIME_SERIES),
        ],
    },
    UnsupportedOptions {
        places: &["collMod"],
        options: &[
            option("dryRun", "`unique` is given when an index is made"),
            option("encryptedFields", ENCRYPTION),
            option("expireAfterSeconds", EXPIRY),
            option("recordIdsReplicated", REPLICATION),
            option("timeseries", TIME_SERIES),
        ],
    },
    UnsupportedOptions { places: &["drop"], options: &[option("encryptedFields", ENCRYPTION)] },
    UnsupportedOptions { places: &["renameCollection"], options: &[option("stayTemp", REPLICATION)] },
    UnsupportedOptions {
        places: &["createIndexes.indexes"],
        options: &[
            option("2dsphereIndexVersion", GEOMETRY),
            option("bits", GEOMETRY),
            option("bucketSize", GEOMETRY),
            option("default_language", TEXT),
            option("dropDups", "no document is removed to make an index unique"),
            option("language_override", TEXT),
            option("prepareUnique", "`unique` is given when an index is made"),
            option("storageEngine", STORAGE_ENGINE),
            option("textIndexVersion", TEXT),
            option("weights", TEXT),
        ],
    },
    UnsupportedOptions {
        places: &["validate"],
        options: &[
            option("enforceFastCount", "the counter is compared in any case"),
            option("fixMultikey", NO_REPAIR),
            option("repair", NO_REPAIR),
        ],
    },
    UnsupportedOptions {
        places: &["compact"],
        options: &[option("dryRun", AFTERWARDS), option("freeSpaceTargetMB", AFTERWARDS)],
    },
    UnsupportedOptions {
        places: &["readConcern"],
        options: &[option("afterClusterTime", MET_AT_ONCE), option("atClusterTime", REPLICATION)],
    },
];

/// Fields of transactions and retryable writes.
const TRANSACTIONS: &[UnsupportedOption] = &[
    option("autocommit", AS_A_STANDALONE),
    option("startTransaction", AS_A_STANDALONE),
    option("stmtId", NO_RETRIES),
    option("stmtIds", NO_RETRIES),
    option("txnNumber", AS_A_STANDALONE),
];

const AFTERWARDS: &str = "how much can be freed is known once it is";
const AS_A_STANDALONE: &str =
    "of the sessions of a server: `cairn serve --replica-set` accepts it, and without that option answers 20";
const ENCRYPTION: &str = "no encryption of fields";
const EXPIRY: &str = "documents expire by TTL indexes only";
const GEOMETRY: &str = "no geometry";
const MET_AT_ONCE: &str = "no replication; `cairn serve --replica-set` has all that it has acknowledged";
const NO_REPAIR: &str = "`validate` changes nothing";
const NO_RETRIES: &str = "only servers of a sharded cluster send it";
const REPLICATION: &str = "no replication";
const SHARDING: &str = "no sharding";
const STORAGE_ENGINE: &str = "of MongoDB's storage engine";
const TEXT: &str = "no text indexes";
const TIME_SERIES: &str = "no time series collections";

const fn option(name: &'static str, reason: &'static str) -> UnsupportedOption {
    UnsupportedOption { name, reason }
}

/// Whether only MongoDB supports the field, in the command or document that messages call `place`.
pub(crate) fn is_option(place: &str, field: &str) -> bool {
    // Tables without places are left out: their options are rejected even if they are false.
    let mut tables =
        UNSUPPORTED_OPTIONS.iter().filter(|table| !table.places.is_empty() && table.places.contains(&place));
    tables.any(|table| table.options.iter().any(|option| option.name == field))
}

/// Whether a field asks for a transaction or a retryable write.
pub(crate) fn is_of_transaction(field: &str) -> bool {
    TRANSACTIONS.iter().any(|option| option.name == field)
}

/// Whether only MongoDB supports the command.
pub(crate) fn is_command(name: &str) -> bool {
    UNSUPPORTED_COMMANDS.iter().any(|table| table.names.contains(&name))
}

/// The commands of MongoDB that are rejected by name, grouped by what they would need.
///
/// ```
/// let mut names = cairndb::UNSUPPORTED_COMMANDS.iter().flat_map(|table| table.names);
/// assert!(names.any(|name| *name == "mapReduce"));
/// ```
pub const UNSUPPORTED_COMMANDS: &[UnsupportedCommands] = &[
    UnsupportedCommands {
        reason: "of a server, which has connections, users and cursors: `cairn serve` answers it",
        is_of_server: true,
        names: &[
            "authenticate",
            "buildInfo",
            "buildinfo",
            "collstats",
            "connectionStatus",
            "currentOp",
            "dbstats",
            "endSessions",
            "fsync",
            "getCmdLineOpts",
            "getLog",
            "getMore",
            "getParameter",
            "hello",
            "hostInfo",
            "isMaster",
            "ismaster",
            "killAllSessions",
            "killCursors",
            "killOp",
            "killSessions",
            "listCommands",
            "logout",
            "profile",
            "refreshSessions",
            "rolesInfo",
            "saslContinue",
            "saslStart",
            "serverStatus",
            "startSession",
            "top",
            "updateUser",
            "usersInfo",
            "whatsmyuri",
        ],
    },
    UnsupportedCommands {
        reason: "fail points for suites: `cairn serve` has them when it is started for tests",
        is_of_server: true,
        names: &["configureFailPoint"],
    },
    UnsupportedCommands {
        reason: "of the sessions of a server: `cairn serve --replica-set` answers them, and without that option with 251; a program has `commit_transaction` and `abort_transaction`",
        is_of_server: true,
        names: &["abortTransaction", "commitTransaction"],
    },
    UnsupportedCommands {
        reason: "of a replica set: `cairn serve --replica-set` is one with one member, and reports it",
        is_of_server: true,
        names: &[
            "replSetGetConfig",
            "replSetGetStatus",
            "replSetInitiate",
            "replSetReconfig",
            "replSetStepDown",
        ],
    },
    UnsupportedCommands {
        reason: "no transactions over several servers",
        is_of_server: false,
        names: &["coordinateCommitTransaction", "prepareTransaction"],
    },
    UnsupportedCommands {
        reason: "no replication",
        is_of_server: false,
        names: &[
            "appendOplogNote",
            "applyOps",
            "getChangeStreamState",
            "getDefaultRWConcern",
            "listDatabasesForAllTenants",
            "replSetAbortPrimaryCatchUp",
            "replSetFreeze",
            "replSetGetRBID",
            "replSetHeartbeat",
            "replSetMaintenance",
            "replSetRequestVotes",
            "replSetResizeOplog",
            "replSetStepDownWithForce",
            "replSetStepUp",
            "replSetSyncFrom",
            "replSetUpdatePosition",
            "setChangeStreamState",
            "setDefaultRWConcern",
            "setIndexCommitQuorum",
            "voteCommitIndexBuild",
        ],
    },
    UnsupportedCommands {
        reason: "no sharding",
        is_of_server: false,
        names: &[
            "abortMoveCollection",
            "abortReshardCollection",
            "abortUnshardCollection",
            "addShard",
            "addShardToZone",
            "analyzeShardKey",
            "autoSplitVector",
            "balancerCollectionStatus",
            "balancerStart",
            "balancerStatus",
            "balancerStop",
            "checkMetadataConsistency",
            "checkShardingIndex",
            "cleanupOrphaned",
            "cleanupReshardCollection",
            "commitReshardCollection",
            "commitShardRemoval",
            "commitTransitionToDedicatedConfigServer",
            "configureCollectionBalancing",
            "configureQueryAnalyzer",
            "connPoolSync",
            "enableSharding",
            "flushRouterConfig",
            "getShardMap",
            "getShardVersion",
            "getTransitionToDedicatedConfigServerStatus",
            "listShards",
            "mergeAllChunksOnShard",
            "mergeChunks",
            "moveChunk",
            "moveCollection",
            "movePrimary",
            "moveRange",
            "refineCollectionShardKey",
            "removeShard",
            "removeShardFromZone",
            "resetPlacementHistory",
            "reshardCollection",
            "setAllowMigrations",
            "setShardVersion",
            "shardCollection",
            "shardDrainingStatus",
            "shardingState",
            "split",
            "splitChunk",
            "splitVector",
            "startShardDraining",
            "startTransitionToDedicatedConfigServer",
            "stopShardDraining",
            "stopTransitionToDedicatedConfigServer",
            "transitionFromDedicatedConfigServer",
            "transitionToDedicatedConfigServer",
            "unshardCollection",
            "updateZoneKeyRange",
        ],
    },
    UnsupportedCommands {
        reason: "users are created by `cairn user`, and have one of two roles",
        is_of_server: false,
        names: &[
            "createRole",
            "createUser",
            "dropAllRolesFromDatabase",
            "dropAllUsersFromDatabase",
            "dropRole",
            "dropUser",
            "grantPrivilegesToRole",
            "grantRolesToRole",
            "grantRolesToUser",
            "invalidateUserCache",
            "revokePrivilegesFromRole",
            "revokeRolesFromRole",
            "revokeRolesFromUser",
            "updateRole",
        ],
    },
    UnsupportedCommands {
        reason: "no search indexes",
        is_of_server: false,
        names: &["createSearchIndexes", "dropSearchIndex", "listSearchIndexes", "updateSearchIndex"],
    },
    UnsupportedCommands {
        reason: "no encryption of fields",
        is_of_server: false,
        names: &[
            "cleanupStructuredEncryptionData",
            "compactStructuredEncryptionData",
            "getQueryableEncryptionCountInfo",
        ],
    },
    UnsupportedCommands {
        reason: "no JavaScript: `aggregate` with `$group` says the same",
        is_of_server: false,
        names: &["mapReduce"],
    },
    UnsupportedCommands {
        reason: "no plans are kept",
        is_of_server: false,
        names: &[
            "planCacheClear",
            "planCacheClearFilters",
            "planCacheListFilters",
            "planCacheSetFilter",
            "removeQuerySettings",
            "setQuerySettings",
        ],
    },
    UnsupportedCommands {
        reason: "no audit log",
        is_of_server: false,
        names: &["getAuditConfig", "logApplicationMessage", "setAuditConfig"],
    },
    UnsupportedCommands {
        reason: "settings are given when the store is opened or the server started",
        is_of_server: false,
        names: &[
            "getClusterParameter",
            "setClusterParameter",
            "setFeatureCompatibilityVersion",
            "setParameter",
            "setProfilingFilterGlobally",
            "setUserWriteBlockMode",
        ],
    },
    UnsupportedCommands {
        reason: "the server is stopped by a signal, and reads its certificates when it starts",
        is_of_server: false,
        names: &["logRotate", "rotateCertificates", "shutdown"],
    },
    UnsupportedCommands {
        reason: "the store compacts itself and by `compact`, is copied by `Client::backup` and checked by `Client::verify` and `validate`",
        is_of_server: false,
        names: &["autoCompact", "dbCheck", "dbHash", "fsyncUnlock", "reIndex", "validateDBMetadata"],
    },
    UnsupportedCommands {
        reason: "statistics and diagnosis of MongoDB's own server",
        is_of_server: false,
        names: &[
            "analyze",
            "connPoolStats",
            "dataSize",
            "driverOIDTest",
            "dropConnections",
            "echo",
            "exportCollection",
            "features",
            "filemd5",
            "getDiagnosticData",
            "getFreeMonitoringStatus",
            "handshake",
            "killAllSessionsByPattern",
            "lockInfo",
            "logMessage",
            "reapLogicalSessionCacheNow",
            "refreshLogicalSessionCacheNow",
            "setFreeMonitoring",
            "startRecordingTraffic",
            "stopRecordingTraffic",
            "waitForFailPoint",
            "whatsmysni",
        ],
    },
    UnsupportedCommands {
        reason: "gone from MongoDB as well, by 5.1 at the latest: kept so that old clients get this error",
        is_of_server: false,
        names: &["geoSearch", "getLastError", "getPrevError", "resetError"],
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_tables_ascend_and_name_nothing_twice() {
        for table in UNSUPPORTED_OPTIONS {
            assert!(table.options.is_sorted_by(|left, right| left.name < right.name), "{table:?}");
        }
        let mut seen = BTreeSet::new();
        for table in UNSUPPORTED_COMMANDS {
            assert!(table.names.is_sorted(), "{table:?}");
            assert!(table.names.iter().all(|name| seen.insert(name)), "{table:?}");
        }
    }
}
