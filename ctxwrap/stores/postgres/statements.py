"""All SQL statements, as constants with bound values; every statement about data names tenant, agent and session.

Tenants, agents and sessions are named by `safe_name`; file names and all contents are bytes.
"""

BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
COMMIT = "COMMIT"

LIMITS = """
SELECT set_config('lock_timeout', %(wait)s, true), set_config('idle_in_transaction_session_timeout', %(idle)s, true)
"""

# sessions

LOCK_SESSION = """
SELECT key, version, token, edition, messages, events, messages_number, events_number FROM ctxwrap_sessions
WHERE tenant = %(tenant)s AND agent = %(agent)s AND session = %(session)s FOR UPDATE
"""

CREATE_SESSION = """
INSERT INTO ctxwrap_sessions (tenant, agent, session, key) VALUES (%(tenant)s, %(agent)s, %(session)s, %(key)s)
ON CONFLICT DO NOTHING
"""

UPDATE_SESSION = """
WITH updated AS (
    UPDATE ctxwrap_sessions SET version = version + 1, token = %(token)s, edition = %(edition)s,
        messages = %(messages)s, events = %(events)s,
        messages_number = %(messages_number)s, events_number = %(events_number)s
    WHERE tenant = %(tenant)s AND agent = %(agent)s AND session = %(session)s
        AND version = %(base_version)s AND token = %(base_token)s
    RETURNING 1
)
SELECT 1 / count(*) FROM updated
"""
"""If the session's row is not the expected one, the division by zero aborts the transaction."""

EDITION = """
SELECT edition FROM ctxwrap_sessions WHERE tenant = %(tenant)s AND agent = %(agent)s AND session = %(session)s
"""

ENDS = """
SELECT messages, events FROM ctxwrap_sessions
WHERE tenant = %(tenant)s AND agent = %(agent)s AND session = %(session)s
"""

SESSIONS_OF = """
SELECT key FROM ctxwrap_sessions WHERE tenant = %(tenant)s AND agent = %(agent)s ORDER BY session
"""

AGENTS_OF = "SELECT DISTINCT ON (agent) key FROM ctxwrap_sessions WHERE tenant = %(tenant)s ORDER BY agent, session"

ALL_KEYS = "SELECT key FROM ctxwrap_sessions ORDER BY tenant, agent, session"
"""For the operator only."""

# records

INSERT_RECORDS = """
INSERT INTO ctxwrap_records (tenant, agent, session, stream, pos, number, said, token, body)
SELECT %(tenant)s, %(agent)s, %(session)s, stream, pos, number, said, %(token)s, body
FROM unnest(%(stream)s::text[], %(pos)s::bigint[], %(number)s::bigint[], %(said)s::boolean[], %(body)s::bytea[])
    AS new (stream, pos, number, said, body)
"""

DELETE_RECORDS = """
DELETE FROM ctxwrap_records
WHERE tenant = %(tenant)s AND agent = %(agent)s AND session = %(session)s AND stream = %(stream)s
"""

READ = """
SELECT pos, body FROM ctxwrap_records
WHERE tenant = %(tenant)s AND agent = %(agent)s AND session = %(session)s AND stream = %(stream)s AND pos > %(after)s
ORDER BY pos
"""

READ_SOME = """
SELECT pos, body FROM ctxwrap_records
WHERE tenant = %(tenant)s AND agent = %(agent)s AND session = %(session)s AND stream = %(stream)s AND pos > %(after)s
ORDER BY pos LIMIT %(most)s
"""

READ_ON = """
SELECT pos, token, CASE WHEN pos > %(after)s THEN body END FROM ctxwrap_records
WHERE tenant = %(tenant)s AND agent = %(agent)s AND session = %(session)s AND stream = %(stream)s AND pos >= %(after)s
ORDER BY pos
"""
"""Starts with the last known record, whose token shows whether the log is still the one that was read."""

BETWEEN = """
SELECT pos, body FROM ctxwrap_records
WHERE tenant = %(tenant)s AND agent = %(agent)s AND session = %(session)s AND stream = %(stream)s
    AND pos BETWEEN %(first)s AND %(last)s AND number = pos
UNION ALL
SELECT pos, body FROM ctxwrap_records
WHERE tenant = %(tenant)s AND agent = %(agent)s AND session = %(session)s AND stream = %(stream)s
    AND number BETWEEN %(first)s AND %(last)s AND number <> pos
ORDER BY 1
"""
"""Most records have their position as number; an index covers the others."""

PICK = """
SELECT number, body FROM ctxwrap_records
WHERE tenant = %(tenant)s AND agent = %(agent)s AND session = %(session)s AND stream = %(stream)s
    AND pos = ANY(%(numbers)s::bigint[]) AND number = pos AND said
UNION ALL
SELECT number, body FROM ctxwrap_records
WHERE tenant = %(tenant)s AND agent = %(agent)s AND session = %(session)s AND stream = %(stream)s
    AND number = ANY(%(numbers)s::bigint[]) AND number <> pos AND said
"""

TOKEN_AT = """
SELECT token FROM ctxwrap_records
WHERE tenant = %(tenant)s AND agent = %(agent)s AND session = %(session)s AND stream = %(stream)s AND pos = %(pos)s
"""

# checkpoints

SAVE_CHECKPOINT = """
INSERT INTO ctxwrap_checkpoints (tenant, agent, session, body)
VALUES (%(tenant)s, %(agent)s, %(session)s, %(body)s)
ON CONFLICT (tenant, agent, session) DO UPDATE SET body = excluded.body
"""

LOAD_CHECKPOINT = """
SELECT c.body, s.edition, s.messages, s.events
FROM ctxwrap_checkpoints c JOIN ctxwrap_sessions s USING (tenant, agent, session)
WHERE tenant = %(tenant)s AND agent = %(agent)s AND session = %(session)s
"""

DELETE_CHECKPOINT = """
DELETE FROM ctxwrap_checkpoints WHERE tenant = %(tenant)s AND agent = %(agent)s AND session = %(session)s
"""

# files: names, and pieces of contents; several names may share a content

DROP_CONTENTS = """
DELETE FROM ctxwrap_pieces
WHERE tenant = %(tenant)s AND agent = %(agent)s AND session = %(session)s AND content = ANY(ARRAY(
    SELECT f.content FROM ctxwrap_files f
    WHERE f.tenant = %(tenant)s AND f.agent = %(agent)s AND f.session = %(session)s
        AND f.name = ANY(%(names)s::bytea[]) AND (
            SELECT count(*) FROM ctxwrap_files o
            WHERE o.tenant = %(tenant)s AND o.agent = %(agent)s AND o.session = %(session)s
                AND o.content = f.content AND o.name <> ALL(%(names)s::bytea[])
        ) = 0
))
"""
"""Runs before files are removed or replaced. Each is looked up alone: no join reads all of them."""

DELETE_FILES = """
DELETE FROM ctxwrap_files
WHERE tenant = %(tenant)s AND agent = %(agent)s AND session = %(session)s AND name = ANY(%(names)s::bytea[])
"""

SAVE_FILES = """
WITH saved AS (
    INSERT INTO ctxwrap_files (tenant, agent, session, name, content, size, modified)
    SELECT %(tenant)s, %(agent)s, %(session)s, name, content, length(body), statement_timestamp()
    FROM unnest(%(names)s::bytea[], %(contents)s::bytea[], %(bodies)s::bytea[]) AS new (name, content, body)
    ON CONFLICT (tenant, agent, session, name)
    DO UPDATE SET content = excluded.content, size = excluded.size, modified = excluded.modified
)
INSERT INTO ctxwrap_pieces (tenant, agent, session, content, start, body)
SELECT %(tenant)s, %(agent)s, %(session)s, content, 0, body
FROM unnest(%(contents)s::bytea[], %(bodies)s::bytea[]) AS new (content, body)
"""

EXTEND_CONTENT = """
INSERT INTO ctxwrap_pieces (tenant, agent, session, content, start, body)
SELECT tenant, agent, session, content, size, %(body)s FROM ctxwrap_files
WHERE tenant = %(tenant)s AND agent = %(agent)s AND session = %(session)s AND name = %(name)s
"""

GROW_FILE = """
UPDATE ctxwrap_files SET size = size + %(length)s, modified = statement_timestamp()
WHERE tenant = %(tenant)s AND agent = %(agent)s AND session = %(session)s AND content = (
    SELECT g.content FROM ctxwrap_files g
    WHERE g.tenant = %(tenant)s AND g.agent = %(agent)s AND g.session = %(session)s AND g.name = %(name)s
)
"""
"""Updates every name of the content."""

LINK_FILE = """
INSERT INTO ctxwrap_files (tenant, agent, session, name, content, size, modified)
SELECT tenant, agent, session, %(other)s, content, size, modified FROM ctxwrap_files
WHERE tenant = %(tenant)s AND agent = %(agent)s AND session = %(session)s AND name = %(name)s
ON CONFLICT DO NOTHING
"""

LOAD_FILE = """
SELECT p.body FROM ctxwrap_files f LEFT JOIN LATERAL (
    SELECT start, substring(body FROM greatest(%(first)s - start, 0)::integer + 1
        FOR greatest(least(%(last)s, f.size) - greatest(start, %(first)s), 0)::integer) AS body
    FROM ctxwrap_pieces
    WHERE tenant = %(tenant)s AND agent = %(agent)s AND session = %(session)s
        AND content = f.content AND start < %(last)s AND start >= coalesce((
            SELECT max(q.start) FROM ctxwrap_pieces q
            WHERE q.tenant = %(tenant)s AND q.agent = %(agent)s AND q.session = %(session)s
                AND q.content = f.content AND q.start <= %(first)s
        ), 0)
    OFFSET 0
) p ON true
WHERE f.tenant = %(tenant)s AND f.agent = %(agent)s AND f.session = %(session)s AND f.name = %(name)s
ORDER BY p.start
"""

FILE_SIZE = """
SELECT size FROM ctxwrap_files
WHERE tenant = %(tenant)s AND agent = %(agent)s AND session = %(session)s AND name = %(name)s
"""

ENTRIES = """
SELECT name, size, extract(epoch FROM modified)::double precision FROM ctxwrap_files
WHERE tenant = %(tenant)s AND agent = %(agent)s AND session = %(session)s
    AND name >= %(first)s AND name < %(last)s
"""

# turns and processes, by the database's clock

LEASE = """
SELECT fence, expires <= statement_timestamp() FROM ctxwrap_leases
WHERE tenant = %(tenant)s AND agent = %(agent)s AND session = %(session)s
"""

CREATE_LEASE = """
INSERT INTO ctxwrap_leases (tenant, agent, session, fence, holder, expires)
VALUES (%(tenant)s, %(agent)s, %(session)s, 0, '', '-infinity')
ON CONFLICT DO NOTHING
"""

TAKE_LEASE = """
WITH taken AS (
    UPDATE ctxwrap_leases SET fence = fence + 1, holder = %(holder)s,
        expires = statement_timestamp() + %(seconds)s * interval '1 second'
    WHERE tenant = %(tenant)s AND agent = %(agent)s AND session = %(session)s
        AND (expires <= statement_timestamp() OR fence = %(over)s)
    RETURNING 1
)
SELECT 1 / count(*) FROM taken
"""
"""`over` is the fence of a lease that was seen to have expired. If another process was faster, it aborts as above."""

RENEW_LEASE = """
UPDATE ctxwrap_leases SET expires = statement_timestamp() + %(seconds)s * interval '1 second'
WHERE tenant = %(tenant)s AND agent = %(agent)s AND session = %(session)s
    AND holder = %(holder)s
"""

END_LEASE = """
UPDATE ctxwrap_leases SET expires = '-infinity'
WHERE tenant = %(tenant)s AND agent = %(agent)s AND session = %(session)s
    AND holder = %(holder)s
"""

RENEW_PROCESS = """
INSERT INTO ctxwrap_writers (name, expires) VALUES (%(name)s, statement_timestamp() + %(seconds)s * interval '1 second')
ON CONFLICT (name) DO UPDATE SET expires = excluded.expires
"""

END_PROCESS = "DELETE FROM ctxwrap_writers WHERE name = %(name)s"

DELETE_DEAD_PROCESSES = "DELETE FROM ctxwrap_writers WHERE expires < statement_timestamp() - interval '1 day'"

IS_ALIVE = "SELECT 1 FROM ctxwrap_writers WHERE name = %(name)s AND expires > statement_timestamp()"

# migrations

HAS_MIGRATIONS = "SELECT to_regclass('ctxwrap_migrations') IS NOT NULL"

APPLIED = "SELECT name FROM ctxwrap_migrations"

LOCK_MIGRATIONS = "SELECT pg_advisory_xact_lock(7238412095471182093)"

CREATE_MIGRATIONS = """
CREATE TABLE IF NOT EXISTS ctxwrap_migrations (
    name text PRIMARY KEY, applied timestamptz NOT NULL DEFAULT statement_timestamp()
)
"""

NOTE_MIGRATION = "INSERT INTO ctxwrap_migrations (name) VALUES (%(name)s)"

FIRST_TABLES = """
CREATE TABLE ctxwrap_sessions (
    tenant text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    session text COLLATE "C" NOT NULL,
    key bytea NOT NULL,
    version bigint NOT NULL DEFAULT 0,
    token bytea NOT NULL DEFAULT '',
    edition bigint NOT NULL DEFAULT 0,
    messages bigint NOT NULL DEFAULT 0,
    events bigint NOT NULL DEFAULT 0,
    messages_number bigint NOT NULL DEFAULT 0,
    events_number bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, agent, session)
) WITH (fillfactor = 50);

CREATE TABLE ctxwrap_records (
    tenant text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    session text COLLATE "C" NOT NULL,
    stream text COLLATE "C" NOT NULL,
    pos bigint NOT NULL,
    number bigint NOT NULL,
    said boolean NOT NULL,
    token bytea NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (tenant, agent, session, stream, pos)
);
CREATE INDEX ctxwrap_records_number ON ctxwrap_records (tenant, agent, session, stream, number) WHERE number <> pos;

CREATE TABLE ctxwrap_checkpoints (
    tenant text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    session text COLLATE "C" NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (tenant, agent, session)
);

CREATE TABLE ctxwrap_files (
    tenant text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    session text COLLATE "C" NOT NULL,
    name bytea NOT NULL,
    content bytea NOT NULL,
    size bigint NOT NULL,
    modified timestamptz NOT NULL,
    PRIMARY KEY (tenant, agent, session, name)
);
CREATE INDEX ctxwrap_files_content ON ctxwrap_files (tenant, content);

CREATE TABLE ctxwrap_pieces (
    tenant text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    session text COLLATE "C" NOT NULL,
    content bytea NOT NULL,
    start bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (tenant, agent, session, content, start)
);

CREATE TABLE ctxwrap_leases (
    tenant text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    session text COLLATE "C" NOT NULL,
    fence bigint NOT NULL,
    holder text NOT NULL,
    expires timestamptz NOT NULL,
    PRIMARY KEY (tenant, agent, session)
);

CREATE TABLE ctxwrap_writers (
    name text COLLATE "C" PRIMARY KEY,
    expires timestamptz NOT NULL
);
"""
