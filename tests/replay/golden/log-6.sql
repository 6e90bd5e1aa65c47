BEGIN TRANSACTION;
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0003');
CREATE TABLE event_fields (
    kind VARCHAR NOT NULL,
    position INTEGER NOT NULL,
    name VARCHAR NOT NULL,
    PRIMARY KEY (kind, position)
) WITHOUT ROWID
;
INSERT INTO "event_fields" VALUES('AllocationChanged',3,'allocation');
INSERT INTO "event_fields" VALUES('AllocationChanged',4,'because');
INSERT INTO "event_fields" VALUES('AllocationChanged',5,'instant');
INSERT INTO "event_fields" VALUES('AllocationLearned',3,'attempt');
INSERT INTO "event_fields" VALUES('AllocationLearned',4,'allocation');
INSERT INTO "event_fields" VALUES('AttemptEnded',3,'attempt');
INSERT INTO "event_fields" VALUES('AttemptEnded',4,'exit_code');
INSERT INTO "event_fields" VALUES('AttemptEnded',5,'ended_us');
INSERT INTO "event_fields" VALUES('AttemptLost',3,'attempt');
INSERT INTO "event_fields" VALUES('AttemptLost',4,'cause');
INSERT INTO "event_fields" VALUES('AttemptLost',5,'lost_us');
INSERT INTO "event_fields" VALUES('AttemptSetAside',3,'attempt');
INSERT INTO "event_fields" VALUES('AttemptSetAside',4,'by');
INSERT INTO "event_fields" VALUES('AttemptStarted',3,'attempt');
INSERT INTO "event_fields" VALUES('AttemptStarted',4,'resumed_from');
INSERT INTO "event_fields" VALUES('AttemptStarted',5,'migrated_from');
INSERT INTO "event_fields" VALUES('AttemptStarted',6,'speed');
INSERT INTO "event_fields" VALUES('AttemptStarted',7,'keeps_split');
INSERT INTO "event_fields" VALUES('AttemptStarted',8,'checkpoints_stay');
INSERT INTO "event_fields" VALUES('AttemptStarted',9,'may_tell_training');
INSERT INTO "event_fields" VALUES('CheckpointDiscarded',3,'attempt');
INSERT INTO "event_fields" VALUES('CheckpointDiscarded',4,'nodes');
INSERT INTO "event_fields" VALUES('CheckpointDiscarded',5,'step');
INSERT INTO "event_fields" VALUES('CheckpointDiscarded',6,'cause');
INSERT INTO "event_fields" VALUES('CheckpointDiscarded',7,'by');
INSERT INTO "event_fields" VALUES('CheckpointSaved',3,'attempt');
INSERT INTO "event_fields" VALUES('CheckpointSaved',4,'checkpoint');
INSERT INTO "event_fields" VALUES('CheckpointSaved',5,'step');
INSERT INTO "event_fields" VALUES('CheckpointSaved',6,'bytes');
INSERT INTO "event_fields" VALUES('ClockStepped',3,'by_us');
INSERT INTO "event_fields" VALUES('ConfigChanged',3,'config');
INSERT INTO "event_fields" VALUES('ConfigChanged',4,'keys');
INSERT INTO "event_fields" VALUES('ConfigChanged',5,'policy');
INSERT INTO "event_fields" VALUES('ConfigChanged',6,'policy_version');
INSERT INTO "event_fields" VALUES('GangApproved',3,'version');
INSERT INTO "event_fields" VALUES('GangApproved',4,'choice');
INSERT INTO "event_fields" VALUES('GangProposed',3,'version');
INSERT INTO "event_fields" VALUES('GangProposed',4,'candidates');
INSERT INTO "event_fields" VALUES('GangRejected',3,'version');
INSERT INTO "event_fields" VALUES('GangRejected',4,'reason');
INSERT INTO "event_fields" VALUES('GangRejected',5,'conflicts');
INSERT INTO "event_fields" VALUES('GpuQuarantined',3,'node');
INSERT INTO "event_fields" VALUES('GpuQuarantined',4,'gpu');
INSERT INTO "event_fields" VALUES('GpuQuarantined',5,'cause');
INSERT INTO "event_fields" VALUES('GpuRestored',3,'node');
INSERT INTO "event_fields" VALUES('GpuRestored',4,'gpu');
INSERT INTO "event_fields" VALUES('GpusReleased',3,'attempt');
INSERT INTO "event_fields" VALUES('GpusTaken',3,'node');
INSERT INTO "event_fields" VALUES('GpusTaken',4,'gpu_mask');
INSERT INTO "event_fields" VALUES('GpusTaken',5,'cause');
INSERT INTO "event_fields" VALUES('JobCancelRequested',3,'by');
INSERT INTO "event_fields" VALUES('JobCancelled',3,'cause');
INSERT INTO "event_fields" VALUES('JobCancelled',4,'ended_us');
INSERT INTO "event_fields" VALUES('JobContinued',3,'attempt');
INSERT INTO "event_fields" VALUES('JobFailed',3,'cause');
INSERT INTO "event_fields" VALUES('JobFailed',4,'exit_code');
INSERT INTO "event_fields" VALUES('JobFailed',5,'ended_us');
INSERT INTO "event_fields" VALUES('JobFinished',3,'ended_us');
INSERT INTO "event_fields" VALUES('JobGroupChanged',3,'group');
INSERT INTO "event_fields" VALUES('JobGroupChanged',4,'by');
INSERT INTO "event_fields" VALUES('JobHeld',3,'by');
INSERT INTO "event_fields" VALUES('JobHeld',4,'until_us');
INSERT INTO "event_fields" VALUES('JobPriorityChanged',3,'priority');
INSERT INTO "event_fields" VALUES('JobPriorityChanged',4,'by');
INSERT INTO "event_fields" VALUES('JobRejected',3,'reason');
INSERT INTO "event_fields" VALUES('JobRejected',4,'needed');
INSERT INTO "event_fields" VALUES('JobRejected',5,'most');
INSERT INTO "event_fields" VALUES('JobRejected',6,'detail');
INSERT INTO "event_fields" VALUES('JobReleased',3,'by');
INSERT INTO "event_fields" VALUES('JobResized',3,'gpus');
INSERT INTO "event_fields" VALUES('JobResized',4,'by');
INSERT INTO "event_fields" VALUES('JobRetried',3,'attempt');
INSERT INTO "event_fields" VALUES('JobStopped',3,'attempt');
INSERT INTO "event_fields" VALUES('JobSubmitted',3,'spec');
INSERT INTO "event_fields" VALUES('JobSubmitted',4,'duration_us');
INSERT INTO "event_fields" VALUES('JobSubmitted',5,'dedupe_key');
INSERT INTO "event_fields" VALUES('JobSubmitted',6,'environment');
INSERT INTO "event_fields" VALUES('JobSubmitted',7,'ended');
INSERT INTO "event_fields" VALUES('JobSuspended',3,'attempt');
INSERT INTO "event_fields" VALUES('JobSuspended',4,'step');
INSERT INTO "event_fields" VALUES('JobSuspended',5,'lost_us');
INSERT INTO "event_fields" VALUES('LaunchFailed',3,'attempt');
INSERT INTO "event_fields" VALUES('LaunchFailed',4,'cause');
INSERT INTO "event_fields" VALUES('LaunchFailed',5,'retryable');
INSERT INTO "event_fields" VALUES('LaunchFailed',6,'checkpoint_on');
INSERT INTO "event_fields" VALUES('MessagesDropped',3,'attempt');
INSERT INTO "event_fields" VALUES('MessagesDropped',4,'count');
INSERT INTO "event_fields" VALUES('MessagesDropped',5,'cause');
INSERT INTO "event_fields" VALUES('NodeAdded',3,'node');
INSERT INTO "event_fields" VALUES('NodeAdded',4,'configuration');
INSERT INTO "event_fields" VALUES('NodeDrained',3,'node');
INSERT INTO "event_fields" VALUES('NodeDrained',4,'by');
INSERT INTO "event_fields" VALUES('NodeLost',3,'node');
INSERT INTO "event_fields" VALUES('NodeLost',4,'cause');
INSERT INTO "event_fields" VALUES('NodeReachable',3,'node');
INSERT INTO "event_fields" VALUES('NodeRemoved',3,'node');
INSERT INTO "event_fields" VALUES('NodeRestored',3,'node');
INSERT INTO "event_fields" VALUES('NodeRestored',4,'by');
INSERT INTO "event_fields" VALUES('NodeUnreachable',3,'node');
INSERT INTO "event_fields" VALUES('PlanRejected',3,'reason');
INSERT INTO "event_fields" VALUES('PlanRejected',4,'rule');
INSERT INTO "event_fields" VALUES('PlanRejected',5,'detail');
INSERT INTO "event_fields" VALUES('PolicySetAside',3,'policy');
INSERT INTO "event_fields" VALUES('PolicySetAside',4,'cause');
INSERT INTO "event_fields" VALUES('PolicySetAside',5,'told');
INSERT INTO "event_fields" VALUES('ProfileMeasured',3,'model');
INSERT INTO "event_fields" VALUES('ProfileMeasured',4,'gpu_type');
INSERT INTO "event_fields" VALUES('ProfileMeasured',5,'gpus');
INSERT INTO "event_fields" VALUES('ProfileMeasured',6,'steps_per_s');
INSERT INTO "event_fields" VALUES('ProfileMeasured',7,'batch_size');
INSERT INTO "event_fields" VALUES('ProfileMeasured',8,'cpus_milli');
INSERT INTO "event_fields" VALUES('ProfileMeasured',9,'memory_mb');
INSERT INTO "event_fields" VALUES('ProfileMeasured',10,'level');
INSERT INTO "event_fields" VALUES('ProfileSampled',3,'attempt');
INSERT INTO "event_fields" VALUES('ProfileSampled',4,'step');
INSERT INTO "event_fields" VALUES('ProfileSampled',5,'batch_s');
INSERT INTO "event_fields" VALUES('ProfileSampled',6,'gpu_utilisation');
INSERT INTO "event_fields" VALUES('ProfileSampled',7,'gpu_memory_mb');
INSERT INTO "event_fields" VALUES('ProfileSampled',8,'cpus');
INSERT INTO "event_fields" VALUES('ProfileSampled',9,'memory_mb');
INSERT INTO "event_fields" VALUES('ProfileSampled',10,'message_bytes_largest');
INSERT INTO "event_fields" VALUES('ProfileSampled',11,'message_bytes_total');
INSERT INTO "event_fields" VALUES('QuotaChanged',3,'queue');
INSERT INTO "event_fields" VALUES('QuotaChanged',4,'quota_gpus');
INSERT INTO "event_fields" VALUES('QuotaChanged',5,'weight');
INSERT INTO "event_fields" VALUES('QuotaChanged',6,'users');
INSERT INTO "event_fields" VALUES('ReservationSet',3,'start_us');
INSERT INTO "event_fields" VALUES('ReservationSet',4,'gpus');
INSERT INTO "event_fields" VALUES('RoundPlanned',3,'number');
INSERT INTO "event_fields" VALUES('RoundPlanned',4,'skipped');
INSERT INTO "event_fields" VALUES('RoundPlanned',5,'seen');
INSERT INTO "event_fields" VALUES('RoundPlanned',6,'trigger');
INSERT INTO "event_fields" VALUES('RoundPlanned',7,'waits');
INSERT INTO "event_fields" VALUES('RoundPlanned',8,'fault');
INSERT INTO "event_fields" VALUES('RoundPlanned',9,'consolidated');
INSERT INTO "event_fields" VALUES('RoundPlanned',10,'spread');
INSERT INTO "event_fields" VALUES('SchedulerStarted',3,'term');
INSERT INTO "event_fields" VALUES('SchedulerStarted',4,'version');
INSERT INTO "event_fields" VALUES('SchedulerStarted',5,'policy');
INSERT INTO "event_fields" VALUES('SchedulerStarted',6,'policy_version');
INSERT INTO "event_fields" VALUES('SchedulerStarted',7,'seed');
INSERT INTO "event_fields" VALUES('SchedulerStarted',8,'config');
INSERT INTO "event_fields" VALUES('SchedulerStarted',9,'digests');
INSERT INTO "event_fields" VALUES('SchedulerStarted',10,'cluster_id');
INSERT INTO "event_fields" VALUES('SchedulerStarted',11,'simulated');
INSERT INTO "event_fields" VALUES('SchedulerStopped',3,'cause');
INSERT INTO "event_fields" VALUES('SegmentSealed',3,'first_seq');
INSERT INTO "event_fields" VALUES('SegmentSealed',4,'last_seq');
INSERT INTO "event_fields" VALUES('SegmentSealed',5,'digest');
INSERT INTO "event_fields" VALUES('SpeedChanged',3,'attempt');
INSERT INTO "event_fields" VALUES('SpeedChanged',4,'speed');
INSERT INTO "event_fields" VALUES('SuspendAcknowledged',3,'attempt');
INSERT INTO "event_fields" VALUES('SuspendEscalated',3,'attempt');
INSERT INTO "event_fields" VALUES('SuspendEscalated',4,'mode');
INSERT INTO "event_fields" VALUES('TargetsSet',3,'targets');
INSERT INTO "event_fields" VALUES('TargetsSet',4,'solver');
INSERT INTO "event_fields" VALUES('TargetsSet',5,'status');
INSERT INTO "event_fields" VALUES('TimeLimitReached',3,'limit_us');
INSERT INTO "event_fields" VALUES('TrainingStarted',3,'attempt');
INSERT INTO "event_fields" VALUES('TrialKept',3,'trial');
INSERT INTO "event_fields" VALUES('TrialKept',4,'measured');
INSERT INTO "event_fields" VALUES('TrialReverted',3,'trial');
INSERT INTO "event_fields" VALUES('TrialReverted',4,'measured');
INSERT INTO "event_fields" VALUES('TrialStarted',3,'trial');
INSERT INTO "event_fields" VALUES('TrialStarted',4,'partners');
INSERT INTO "event_fields" VALUES('TrialStarted',5,'baseline');
INSERT INTO "event_fields" VALUES('WaitReasonChanged',3,'wait');
CREATE TABLE frames (
    first_seq INTEGER NOT NULL,
    count INTEGER NOT NULL,
    at_us INTEGER NOT NULL,
    term INTEGER NOT NULL,
    chain BLOB NOT NULL,
    payload TEXT NOT NULL,
    PRIMARY KEY (first_seq)
);
INSERT INTO "frames" VALUES(61,30,540,1,X'10EEAFC40755B32C734ED363A19DBA40ED2A08967427555FCAF0BD55447CEC06','[["TargetsSet",540,null,[]],["TargetsSet",540,null,[[["jobs é","jobs é"],"gpu_type é",106.75],[["jobs é","jobs é"],"gpu_type é",106.75]],"solver é","status é"],["AllocationChanged",540,"job_id é",[],["rule é"]],["AllocationChanged",540,"job_id é",[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"],["rule é",[655,655],["beneficiaries é","beneficiaries é"],"detail é"],true],["WaitReasonChanged",540,"job_id é",["displaced"]],["WaitReasonChanged",540,"job_id é",["displaced",613,418,["blockers é","blockers é"],"detail é"]],["PlanRejected",540,"job_id é","displaced","rule é"],["PlanRejected",540,"job_id é","displaced","rule é","detail é"],["PolicySetAside",540,null,"policy é","cause é",435],["PolicySetAside",540,null,"policy é","cause é",435],["GangProposed",540,"job_id é",774,[]],["GangProposed",540,"job_id é",774,[[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"],[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"]]],["GangApproved",540,"job_id é",774,619],["GangApproved",540,"job_id é",774,619],["GangRejected",540,"job_id é",774,"displaced"],["GangRejected",540,"job_id é",774,"displaced",[["conflicts é",965],["conflicts é",965]]],["ReservationSet",540,"job_id é",null],["ReservationSet",540,"job_id é",885,447],["TrialStarted",540,"job_id é","trial é"],["TrialStarted",540,"job_id é","trial é",["partners é","partners é"],104.375],["TrialKept",540,"job_id é","trial é"],["TrialKept",540,"job_id é","trial é",106.75],["TrialReverted",540,"job_id é","trial é"],["TrialReverted",540,"job_id é","trial é",106.75],["LaunchFailed",540,"job_id é",767,"cause é"],["LaunchFailed",540,"job_id é",767,"cause é",false,["checkpoint_on é","checkpoint_on é"]],["AttemptStarted",540,"job_id é",767],["AttemptStarted",540,"job_id é",767,"resumed_from é",["migrated_from é","migrated_from é"],66.125,true,true,true],["SuspendAcknowledged",540,"job_id é",767],["SuspendAcknowledged",540,"job_id é",767]]');
INSERT INTO "frames" VALUES(91,30,540,1,X'E4D8B2DAFEAC74DFEFBBFDD1175DD7B75CB904BBFC8271538D342D44524078A8','[["SuspendEscalated",540,"job_id é",767,"never"],["SuspendEscalated",540,"job_id é",767,"never"],["TrainingStarted",540,"job_id é",767],["TrainingStarted",540,"job_id é",767],["JobStopped",540,"job_id é",767],["JobStopped",540,"job_id é",767],["JobContinued",540,"job_id é",767],["JobContinued",540,"job_id é",767],["CheckpointSaved",540,"job_id é",767,"checkpoint é"],["CheckpointSaved",540,"job_id é",767,"checkpoint é",444,551],["CheckpointDiscarded",540,"job_id é",767,[]],["CheckpointDiscarded",540,"job_id é",767,["nodes é","nodes é"],444,"cause é","by é"],["JobSuspended",540,"job_id é",767],["JobSuspended",540,"job_id é",767,444,777],["AttemptEnded",540,"job_id é",767,null],["AttemptEnded",540,"job_id é",767,948,839],["AttemptLost",540,"job_id é",767,"cause é"],["AttemptLost",540,"job_id é",767,"cause é",777],["GpusReleased",540,"job_id é",767],["GpusReleased",540,"job_id é",767],["SpeedChanged",540,"job_id é",767,66.125],["SpeedChanged",540,"job_id é",767,66.125],["MessagesDropped",540,"job_id é",767,553,"cause é"],["MessagesDropped",540,"job_id é",767,553,"cause é"],["AttemptSetAside",540,"job_id é",767],["AttemptSetAside",540,"job_id é",767,"by é"],["AllocationLearned",540,"job_id é",767,[]],["AllocationLearned",540,"job_id é",767,[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"]],["ProfileSampled",540,"job_id é",767],["ProfileSampled",540,"job_id é",767,444,90.5,204.0,1394,55.375,967,2236,2030]]');
INSERT INTO "frames" VALUES(121,2,540,1,X'EC53BDA132B62090F9DF7747B8C101B5DDE579FE07952B92D37CED1F0A323B78','[["ProfileMeasured",540,null,"model é","gpu_type é",447,148.875],["ProfileMeasured",540,null,"model é","gpu_type é",447,148.875,1052,1073,967,"level é"]]');
CREATE TABLE head (
    seq INTEGER NOT NULL,
    chain BLOB NOT NULL,
    term INTEGER NOT NULL
);
INSERT INTO "head" VALUES(122,X'EC53BDA132B62090F9DF7747B8C101B5DDE579FE07952B92D37CED1F0A323B78',1);
CREATE TABLE job_index (
    first_seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    digest VARCHAR NOT NULL,
    names BLOB NOT NULL,
    PRIMARY KEY (first_seq)
);
CREATE TABLE meta (
    name VARCHAR NOT NULL,
    value VARCHAR NOT NULL,
    PRIMARY KEY (name)
);
INSERT INTO "meta" VALUES('terms','[[1,1]]');
INSERT INTO "meta" VALUES('event_fields','7c11c28a86114e8827ff00c08d9ae090f04822c7bf850743f85d5e1de3a755e7');
INSERT INTO "meta" VALUES('schema','1');
INSERT INTO "meta" VALUES('digest','3871db00f48d10a373be0f395d3825432cbf03fa633c24c7e7ff529010989291');
CREATE TABLE outcomes (
    seq INTEGER NOT NULL,
    first INTEGER NOT NULL,
    count INTEGER NOT NULL,
    digest VARCHAR NOT NULL,
    pairs BLOB NOT NULL,
    PRIMARY KEY (seq)
);
CREATE TABLE past_jobs (
    seq INTEGER NOT NULL,
    job_id VARCHAR NOT NULL,
    outcome VARCHAR NOT NULL,
    PRIMARY KEY (seq),
    UNIQUE (job_id, seq)
);
CREATE TABLE past_keys (
    seq INTEGER NOT NULL,
    "key" VARCHAR NOT NULL,
    job_id VARCHAR NOT NULL,
    PRIMARY KEY (seq),
    UNIQUE ("key", seq)
);
CREATE TABLE past_upto (
    seq INTEGER NOT NULL,
    last_number INTEGER NOT NULL,
    digest VARCHAR NOT NULL
);
INSERT INTO "past_upto" VALUES(0,0,'806d8da2d7991a33b74ff6a9c1860979');
CREATE TABLE segments (
    first_seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    chain BLOB NOT NULL,
    digest VARCHAR NOT NULL,
    frames BLOB NOT NULL,
    PRIMARY KEY (first_seq)
);
INSERT INTO "segments" VALUES(1,60,X'E8ED0CB139D220754AB15ED760A49F15703B670246842294F7628A72F0961E9B','739214985b6fc0b423f883739a2317a79c24bf54db0f0f653ac5013f398b7e8a',X'789CD5575D8FA336147DEFAF58F16C8DC0D8061EABA9BAD56AB5DA4DB64F513432F826C30E31144CAAF41FF577F48FF59A8F04324C20DBF6A10F916CDFE3E36BFBFA9CB0F188EF12CE5CE21147C6B1DCB11D8B76B110218F1225E310FC44501C4AA48813CA434FC53B1F1495B12B5C90D2E72A8E85172A4E9DED0F9B8DB34E9E41D519946B234B03CA69E8759D658461C3394259A5B97EF7D79F0E718A3C4B93D3B0FD348C332F204E92EB5DBAB7FD2DF94FE90966AFD23D54A66AA70C3A76E937635B64C9EACA40F994AA266CCA1AEC94C786FCF159EAFD28D5D1AADBB9441733392F70EAF2EB5BCBC8B33C79591B288A113767623EBA86FD01B45983CC46E1281024146E7F52E7FBBB137EB9EEFC6A7D2791750577033FE50A7E546A8CD038D81DA19687B6E9EC8BFAC99C8AB6C758B0FD67D389E7063E8904D65C299397AE8CF2834C755F7D5D15619B331FF9FD66C989D1AD6D736C73BC5F05C73481AE12DB0C7F2A91753AC70510E2C4A7217485179297B7E96E61AEF97ED525C8E459C619DCA25C085BFD6BA08F7965BE273E51612B38E4C7B913BB09795FD45F6A594A6DDEBC26DFA7CB915749E2A49B5776E15E08ABBECA17D093A090F345A0618AE825FED09C2004E526B1E7478A5237E04CC61E07150857A23B793C70FD58042E65226494466C17081ACA80EEDC487810C5AD397DA973232744F4B71AEAF3D1CC82F02547A856DE838B684CB8EC34F7DC6CDEE1873C5ED7F12135679772BEE571EF109B2518AB1A0D6BCB7F49C039E0B1655D2E9C128FBAF4A22F78485D7A6114E22ABD12556361EAFD612059655E179D9025F9E120B5EAEAFBD2B182939690604DB49E120AABDCB8CE463046F0871BEB5B5BE2792CB2D236D89623F5A939E85763161EB091127A5EF420281FE9603F76F15D3B163E60016938DA1EF5B19A387FA03824CB52B69906346A9C990442D8A5A2C08AA7AA0B7842BBEC4518F4312D736D5DAA4DED6AC0A6328BD9B64CC8DEC64D7A80BC36DDE4D7C37D35ACE01B1EED5431E0A9574526138CDD8325C2F309E39EDDA99169D6EF00E7FF02D9EBB9B762BD8E9330F4CF396420AB891CE6E2434F687055FAC714CCFAEE3CE4159B29D329682082E590CF659A97A9398DA46008C5D77507F42AC7F7F6ADBD89BF3CC53BE157AB3C4A9D40B602948E6AAA5416C286AC5FB1663FA6A8598DA74E6E3670EF0262023FA73AADA630737112FA518FC1F29ECC7D647C8B802462E180B93D9EA939B380216947B8CA6BAD3E67528FDD5AA05006A8E58C06CB50C4F91DDDD46A566B14437FEA9C6056FB2FFF2D27D5BB51CBFE63E65A543CEB2DB1FD38383BE0B0B71D498E15C4FF4196D8DDC93A336713D4157E312969E0EC84E311BB6455E01FD52E7E6923D9DF7E2318AB');
CREATE TABLE snapshots (
    seq INTEGER NOT NULL,
    at_us INTEGER NOT NULL,
    digest VARCHAR NOT NULL,
    state BLOB NOT NULL,
    memory BLOB NOT NULL,
    PRIMARY KEY (seq)
);
INSERT INTO "snapshots" VALUES(60,540,'3:5ccf7076cca7d70d70599d1521ca881610d16a1e6b2655b85527880eabac35e8',X'5B227374617465225D',X'5B226D656D6F7279225D');
CREATE VIEW events (seq, at_us, kind, job_id, payload) AS
SELECT frames.first_seq + event."key",
       json_extract(event.value, '$[1]'),
       json_extract(event.value, '$[0]'),
       json_extract(event.value, '$[2]'),
       (SELECT json_group_object(field.name, event.value -> field.position)
          FROM event_fields AS field
         WHERE field.kind = json_extract(event.value, '$[0]')
           AND field.position < json_array_length(event.value))
  FROM frames, json_each(frames.payload) AS event;
COMMIT;
