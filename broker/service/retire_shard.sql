-- SPDX-License-Identifier: MPL-2.0
-- A shard is not used any more: all of it leaves the database, with its jobs.  Its brokers have
-- ended.  For shard 2:
--
--     PGOPTIONS='-c errbus.shard=2' psql -f retire_shard.sql CONNINFO
DO $$
DECLARE
    retired CONSTANT int := current_setting('errbus.shard');
    piece text;
BEGIN
    IF EXISTS (SELECT FROM errbus_shard WHERE shard = retired AND ends > clock_timestamp()) THEN
        RAISE 'a broker has shard % still: end it and its spares first', retired;
    END IF;
    DELETE FROM errbus_endpoint WHERE shard = retired;
    DELETE FROM errbus_job WHERE shard = retired;
    DELETE FROM errbus_file WHERE shard = retired;
    DELETE FROM errbus_taken WHERE shard = retired;
    DELETE FROM errbus_shard WHERE shard = retired;
    FOR piece IN
        SELECT relname FROM pg_class WHERE relkind = 'r' AND pg_table_is_visible(oid)
        AND relname ~ ('^errbus_piece_' || retired || '_[0-9]+$')
    LOOP
        EXECUTE format('DROP TABLE %I', piece);
    END LOOP;
END
$$;
