BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE event_fields (
	kind VARCHAR NOT NULL, 
	position INTEGER NOT NULL, 
	name VARCHAR NOT NULL, 
	PRIMARY KEY (kind, position)
)
 WITHOUT ROWID

;
INSERT INTO "event_fields" VALUES('AllocationChanged',3,'allocation');
INSERT INTO "event_fields" VALUES('AllocationChanged',4,'because');
INSERT INTO "event_fields" VALUES('AllocationChanged',5,'instant');
INSERT INTO "event_fields" VALUES('AttemptEnded',3,'attempt');
INSERT INTO "event_fields" VALUES('AttemptEnded',4,'exit_code');
INSERT INTO "event_fields" VALUES('AttemptLost',3,'attempt');
INSERT INTO "event_fields" VALUES('AttemptLost',4,'cause');
INSERT INTO "event_fields" VALUES('AttemptLost',5,'lost_us');
INSERT INTO "event_fields" VALUES('AttemptStarted',3,'attempt');
INSERT INTO "event_fields" VALUES('AttemptStarted',4,'resumed_from');
INSERT INTO "event_fields" VALUES('AttemptStarted',5,'migrated_from');
INSERT INTO "event_fields" VALUES('AttemptStarted',6,'speed');
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
INSERT INTO "event_fields" VALUES('JobCancelRequested',3,'by');
INSERT INTO "event_fields" VALUES('JobCancelled',3,'cause');
INSERT INTO "event_fields" VALUES('JobContinued',3,'attempt');
INSERT INTO "event_fields" VALUES('JobFailed',3,'cause');
INSERT INTO "event_fields" VALUES('JobFailed',4,'exit_code');
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
INSERT INTO "event_fields" VALUES('JobStopped',3,'attempt');
INSERT INTO "event_fields" VALUES('JobSubmitted',3,'spec');
INSERT INTO "event_fields" VALUES('JobSubmitted',4,'duration_us');
INSERT INTO "event_fields" VALUES('JobSubmitted',5,'dedupe_key');
INSERT INTO "event_fields" VALUES('JobSubmitted',6,'environment');
INSERT INTO "event_fields" VALUES('JobSuspended',3,'attempt');
INSERT INTO "event_fields" VALUES('JobSuspended',4,'step');
INSERT INTO "event_fields" VALUES('JobSuspended',5,'lost_us');
INSERT INTO "event_fields" VALUES('LaunchFailed',3,'attempt');
INSERT INTO "event_fields" VALUES('LaunchFailed',4,'cause');
INSERT INTO "event_fields" VALUES('LaunchFailed',5,'retryable');
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
INSERT INTO "frames" VALUES(61,30,540,1,X'EBF1B64695845DE2FDB9B985410610F3C2E226E3755AE58F12879103A20641D3','[["WaitReasonChanged",540,"job_id é",["refused"]],["WaitReasonChanged",540,"job_id é",["refused",613,418,["blockers é","blockers é"],"detail é"]],["PlanRejected",540,"job_id é","refused","rule é"],["PlanRejected",540,"job_id é","refused","rule é","detail é"],["GangProposed",540,"job_id é",774,[]],["GangProposed",540,"job_id é",774,[[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"],[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"]]],["GangApproved",540,"job_id é",774,619],["GangApproved",540,"job_id é",774,619],["GangRejected",540,"job_id é",774,"refused"],["GangRejected",540,"job_id é",774,"refused",[["conflicts é",965],["conflicts é",965]]],["ReservationSet",540,"job_id é",null],["ReservationSet",540,"job_id é",885,447],["TrialStarted",540,"job_id é","trial é"],["TrialStarted",540,"job_id é","trial é",["partners é","partners é"],104.375],["TrialKept",540,"job_id é","trial é"],["TrialKept",540,"job_id é","trial é",106.75],["TrialReverted",540,"job_id é","trial é"],["TrialReverted",540,"job_id é","trial é",106.75],["LaunchFailed",540,"job_id é",767,"cause é"],["LaunchFailed",540,"job_id é",767,"cause é",false],["AttemptStarted",540,"job_id é",767],["AttemptStarted",540,"job_id é",767,"resumed_from é",["migrated_from é","migrated_from é"],66.125],["SuspendAcknowledged",540,"job_id é",767],["SuspendAcknowledged",540,"job_id é",767],["SuspendEscalated",540,"job_id é",767,"never"],["SuspendEscalated",540,"job_id é",767,"never"],["JobStopped",540,"job_id é",767],["JobStopped",540,"job_id é",767],["JobContinued",540,"job_id é",767],["JobContinued",540,"job_id é",767]]');
INSERT INTO "frames" VALUES(91,16,540,1,X'78474227498EAF59E594973868E62240C4C1E57A61CD8A82B20DEDD361C514B7','[["CheckpointSaved",540,"job_id é",767,"checkpoint é"],["CheckpointSaved",540,"job_id é",767,"checkpoint é",444,551],["JobSuspended",540,"job_id é",767],["JobSuspended",540,"job_id é",767,444,777],["AttemptEnded",540,"job_id é",767,null],["AttemptEnded",540,"job_id é",767,948],["AttemptLost",540,"job_id é",767,"cause é"],["AttemptLost",540,"job_id é",767,"cause é",777],["GpusReleased",540,"job_id é",767],["GpusReleased",540,"job_id é",767],["SpeedChanged",540,"job_id é",767,66.125],["SpeedChanged",540,"job_id é",767,66.125],["ProfileSampled",540,"job_id é",767],["ProfileSampled",540,"job_id é",767,444,90.5,204.0,1394,55.375,967,2236,2030],["ProfileMeasured",540,null,"model é","gpu_type é",447,148.875],["ProfileMeasured",540,null,"model é","gpu_type é",447,148.875,1052,1073,967,"level é"]]');
CREATE TABLE head (
	seq INTEGER NOT NULL, 
	chain BLOB NOT NULL, 
	term INTEGER NOT NULL
);
INSERT INTO "head" VALUES(106,X'78474227498EAF59E594973868E62240C4C1E57A61CD8A82B20DEDD361C514B7',1);
CREATE TABLE job_frames (
	job_id VARCHAR NOT NULL, 
	first_seq INTEGER NOT NULL, 
	PRIMARY KEY (job_id, first_seq)
)
 WITHOUT ROWID

;
CREATE TABLE meta (
	name VARCHAR NOT NULL, 
	value VARCHAR NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "meta" VALUES('schema','1');
INSERT INTO "meta" VALUES('job_frames_seq','0');
CREATE TABLE segments (
	first_seq INTEGER NOT NULL, 
	last_seq INTEGER NOT NULL, 
	chain BLOB NOT NULL, 
	digest VARCHAR NOT NULL, 
	frames BLOB NOT NULL, 
	PRIMARY KEY (first_seq)
);
INSERT INTO "segments" VALUES(1,60,X'979CC33D87BAF4E089657C2900FCF494D49FBDD81ECAB845435DED3AC6D2BBF3','0e18226400acb4fe49c0c1353aa521000cd20608898c41e41cf02d2b9cff2bf2',X'789CCD57CD8EA43610BEEF53449CAD110603E6B89A281B45AB68B77B736AA19131458F7768E818E8A8F346798EBC58CAFC35F4300D9DDD483920D9AECF559F5DF6576647896B138FD984122BF41CC9A41F02676908A910A91D4A1E704A1D908E0794A73C9632E5295A3C2A7C495316BAB1A042309F0B2B7AB7DB595BF90C499D81DE56425790588DFBBCCE32C2B0619D4097AAC87FF8FB2F8B58C72253F23C6E3F8DED8C06C492459EAABDE947E43F754F907DA2F65056653B65D431A1DFB445E825ABCB0AF4934A1A73A56B30531E1BE78FCF22DF4FA84EA2464B44577BB25EE0DCF1EB5BEB9C67857CD956703C4E7C7BCC5FB66E617F80BCDA82C826E630F009F7ED7EA786FCDD09BFA4BBB88A6F4951977037F0D72281F7493245E438D86D612E0E6DD3DA1FEBA7EA7C6C7B8C05D1B74D27D40E5C12FA78E6B4902FDD312A0E42E5FDE9EB4E11B63DE6A27FB70939331A99B6876D0FF39BC04949E84E62CBF0478D5EE739AE80102B3E8FA11B4C48A16FBBBB85B9F6F75BAE41C867116770CBE54AD8E6BB813E1665F56FEC33276C0387E2B4B46337211F8EF5E75A6891576FA6C9759DF5C82B9238E966CA2EBED7C03ED7452566C4E9F71AEA21E422086F48882A401F6C442357DD69D9D0C483FF6EE74E6A56104AE9BA090F629132B079E87B817442DB4E25162796B0308D9384539022E60C2F8F8777D715D24F9C384EDDB666FD52C4DB3A3EA86A2828D6D722EEC57CD75CAB058CB9E00DD196F2654DD601F72AEB96E739843AB6739102EAF62BE621C728BD6894530DE9A57CA42EBAA88F9DE6C8E2701079D21DC54BC76883D220317DADFC73DF882CC6D9F98C11FC70617D2B2294B2D0A8D0685996C8CF4DEE5E8D1978C026A24569F8E03BDE44B2FAB14B893463FCC1C3B5C0C9F41CD74321F31E1C1C125A8B9669E08426421818794BEA233C6141EB6512F293D2456EEA48CBE86AC03058C4F449DDC057DCA1B99C5A1A52CC6862AD47129FBA8479D4B0AE84CA7A3638FB67C85ECFBC65EB559370EE0E0C3210E50C8325FB58811B5CA9FE9C83992AB70CB9F2F649AB42ABEA3CB9DAE32978B4EF805E79FF600EFA9BF8CB3DB8137E15E551E412B20DE0BD2DE752BC1236F6FA451DE0A342C1686ACFEC6203FB2E2012F849E5AA9CC32CD90977C31E83077396FBA440AC029290F1C9D6CCE11701579137459D279F32914FAB998FEA14A0803227588722D61FE2058C62B4EA3CAE339DFC2E0AEEE5ED352B99FD3B7F7AFFA951F2D8BC9A871236EE451375C0E9FF6B7AD84D459D0DC2FA45E83D54E516C64FA1B644CE9BDA8AD205EA5BD1D5FB98DAFE43604AC71D601C2E8BECD497DCB212553DFCACBDCF7049A2C29F9C37C560D76C0DFE330C4FE7359390E1F0FAE158BAFA6499F9F306C313FFBABA42D207C43C21083F3318430EA9924A68D5A7FAD5D0342F6D6EA37F00AC5A3B56');
CREATE TABLE snapshots (
	seq INTEGER NOT NULL, 
	at_us INTEGER NOT NULL, 
	digest VARCHAR NOT NULL, 
	state BLOB NOT NULL, 
	memory BLOB NOT NULL, 
	PRIMARY KEY (seq)
);
INSERT INTO "snapshots" VALUES(60,540,'c5ee783ea2ec918ee271ce954aadc738144f70baacfa6cf0ecdb826f8942b5eb',X'5B227374617465225D',X'5B226D656D6F7279225D');
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
