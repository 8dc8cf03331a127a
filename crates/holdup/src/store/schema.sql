CREATE TABLE run (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    started_unix_s   INTEGER NOT NULL,
    finished_unix_s  INTEGER,
    title            TEXT NOT NULL,
    command          TEXT NOT NULL,
    seed             INTEGER NOT NULL,
    baseline         TEXT,
    repeats          INTEGER NOT NULL,
    reject           INTEGER NOT NULL,
    limit_ns         INTEGER,
    definition       TEXT
) STRICT;
CREATE INDEX run_started ON run (started_unix_s);

CREATE TABLE environment (
    run       INTEGER NOT NULL REFERENCES run (id),
    position  INTEGER NOT NULL,
    name      TEXT NOT NULL,
    value     TEXT NOT NULL,
    PRIMARY KEY (run, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE warning (
    run       INTEGER NOT NULL REFERENCES run (id),
    position  INTEGER NOT NULL,
    code      TEXT NOT NULL,
    text      TEXT NOT NULL,
    PRIMARY KEY (run, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE cell (
    run       INTEGER NOT NULL REFERENCES run (id),
    position  INTEGER NOT NULL,
    sweep     TEXT NOT NULL,
    lock      TEXT NOT NULL,
    workload  TEXT NOT NULL,
    threads   INTEGER NOT NULL,
    factors   TEXT NOT NULL,
    PRIMARY KEY (run, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX cell_history ON cell (lock, workload, threads, run);

CREATE TABLE task (
    run       INTEGER NOT NULL REFERENCES run (id),
    position  INTEGER NOT NULL,
    cell      INTEGER NOT NULL,
    repeat    INTEGER NOT NULL,
    block     INTEGER NOT NULL,
    PRIMARY KEY (run, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE sample (
    id                            INTEGER PRIMARY KEY,
    run                           INTEGER NOT NULL REFERENCES run (id),
    task                          INTEGER NOT NULL,
    attempt                       INTEGER NOT NULL,
    cell                          INTEGER NOT NULL,
    repeat                        INTEGER NOT NULL,
    block                         INTEGER NOT NULL,
    rejected                      INTEGER NOT NULL,
    failure                       TEXT,
    failure_detail                TEXT,
    ops                           INTEGER,
    elapsed_ns                    INTEGER,
    user_ns                       INTEGER,
    kernel_ns                     INTEGER,
    voluntary_switches            INTEGER,
    involuntary_switches          INTEGER,
    raw                           TEXT,
    process_elapsed_ns            INTEGER NOT NULL,
    process_user_ns               INTEGER NOT NULL,
    process_kernel_ns             INTEGER NOT NULL,
    process_voluntary_switches    INTEGER NOT NULL,
    process_involuntary_switches  INTEGER NOT NULL,
    process_minor_faults          INTEGER NOT NULL,
    process_major_faults          INTEGER NOT NULL,
    process_max_rss_bytes         INTEGER NOT NULL,
    background_share              REAL NOT NULL,
    steal_share                   REAL NOT NULL,
    UNIQUE (run, task, attempt),
    CHECK ((failure IS NULL) = (raw IS NOT NULL))
) STRICT;
CREATE UNIQUE INDEX sample_kept_once ON sample (run, task) WHERE rejected = 0;
